//! Benchmarks of a whole cluster: real processes, real Postgres with fsync, real Redis, over gRPC.
//!
//! Prints one JSON object a line: `{"bench","value","unit",…}`. Where it finds the cluster is told by the variables
//! that `make cluster` writes to `target/cluster/env`.

mod cluster;
mod growth;
mod latency;
mod memory;
mod throughput;

use clap::Parser;

/// Which benchmark to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Bench {
    /// Nodes, events and CPU of one run and of fifty.
    Throughput,
    /// From decision to client at 500 events a second.
    Latency,
    /// Memory of the driver for each live node.
    Memory,
    /// Cost of an event as one run grows to 100,000.
    Growth,
}

/// Benchmarks of a running cluster.
#[derive(Parser)]
struct Args {
    /// Benchmarks to run, one after the other; all when none is named.
    benches: Vec<Bench>,
    /// Repetitions; the median is reported.
    #[arg(long, default_value_t = 5)]
    repeat: usize,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let cluster = cluster::Cluster::from_env().await?;
    let wanted = |bench| args.benches.is_empty() || args.benches.contains(&bench);
    if wanted(Bench::Throughput) {
        throughput::run(&cluster, args.repeat).await?;
    }
    if wanted(Bench::Latency) {
        latency::run(&cluster, args.repeat).await?;
    }
    if wanted(Bench::Memory) {
        memory::run(&cluster).await?;
    }
    if wanted(Bench::Growth) {
        growth::run(&cluster).await?;
    }
    Ok(())
}
