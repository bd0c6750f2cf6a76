//! Benchmarks of a whole cluster: real processes, real Postgres with fsync, real Redis, over gRPC.
//!
//! Prints one JSON object per line: `{"bench","value","unit",…}`. It finds the cluster with the variables that
//! `make cluster` writes to `target/cluster/env`.

mod cluster;
mod fanout;
mod growth;
mod idle;
mod latency;
mod live;
mod memory;
mod ownership;
mod raw;
mod resume;
mod takeover;
mod throughput;
mod waiting;

use clap::Parser;

/// The allocator of the programs that are measured.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Which benchmark to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Bench {
    /// Nodes, events and CPU of one run and of fifty, compared with raw inserts.
    Throughput,
    /// Delay from decision to client at 500 events per second.
    Latency,
    /// Memory of the driver for each live run and node.
    Memory,
    /// Cost of an event as one run grows to 100,000 events, and how fast that log is read again.
    Growth,
    /// `WatchRun` clients compared with plain Redis subscribers.
    Fanout,
    /// Memory of the gateway for each idle subscriber.
    Idle,
    /// Claims and renewals while others drive 100,000 runs.
    Ownership,
    /// 20,000 live runs on two planners, each with an open call. Runs only if named, because it needs `REPLICAS=2` and
    /// planners that may hold so many.
    Live,
    /// `kill -9` of one of two planners with 1,000 live runs. Runs only if named, because it needs `REPLICAS=2`.
    Takeover,
    /// 600 runs that wait for slow models, and a small run beside a very wide one. Runs only if named, because it
    /// takes minutes and its figures are for `REPLICAS=2`.
    Waiting,
}

/// Benchmarks of a running cluster.
#[derive(Parser)]
struct Args {
    /// Benchmarks to run, one after the other; by default all but live, takeover and waiting.
    benches: Vec<Bench>,
    /// Repetitions; the median is reported.
    #[arg(long, default_value_t = 5)]
    repeat: usize,
    /// Short and small, to check that everything works; the figures mean little.
    #[arg(long)]
    quick: bool,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let Args { benches, repeat, quick } = Args::parse();
    let repeat = if quick { 1 } else { repeat.max(1) };
    let cluster = cluster::Cluster::from_env().await?;
    let named_only = [Bench::Live, Bench::Takeover, Bench::Waiting];
    let wanted = |bench| benches.contains(&bench) || (benches.is_empty() && !named_only.contains(&bench));
    // First, because memory that other benchmarks have used and freed would not be counted.
    if wanted(Bench::Idle) {
        idle::run(&cluster, quick).await?;
    }
    if wanted(Bench::Memory) {
        memory::run(&cluster, repeat).await?;
    }
    if wanted(Bench::Throughput) {
        throughput::run(&cluster, repeat, quick).await?;
    }
    if wanted(Bench::Latency) {
        latency::run(&cluster, repeat).await?;
    }
    if wanted(Bench::Fanout) {
        fanout::run(&cluster, repeat, quick).await?;
    }
    if wanted(Bench::Growth) {
        let grown = growth::run(&cluster, repeat).await?;
        resume::run(&cluster, &grown, repeat).await?;
    }
    if wanted(Bench::Ownership) {
        ownership::run(&cluster, quick).await?;
    }
    if wanted(Bench::Waiting) {
        waiting::run(&cluster, quick).await?;
    }
    if wanted(Bench::Live) {
        live::run(&cluster, quick).await?;
    }
    if wanted(Bench::Takeover) {
        takeover::run(&cluster, quick).await?;
    }
    Ok(())
}
