//! The connection pool, and the time limit of calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use deadpool_postgres::tokio_postgres::types::ToSql;
use deadpool_postgres::tokio_postgres::{self, Row, Statement};
use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, QueueMode, RecyclingMethod, Runtime};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::failure::{Failure, map_error, no_answer, with_timeout};
use super::pipelined::Pipelined;
use super::tls;
use crate::error::StoreError;

/// Limits of the connection pool.
#[derive(Clone, Copy, Debug)]
pub struct PoolConfig {
    /// Connections at the most. Default 8.
    pub max_connections: usize,
    /// How long to wait for a connection, new or free. Default 5 s.
    pub connect_timeout: Duration,
    /// How long one call may take before its connection is closed, and the server ends it too. Default 30 s.
    pub request_timeout: Duration,
    /// How long to wait for a row that another client holds locked. Default 1 s.
    pub lock_timeout: Duration,
    /// How long a transaction of ours may idle before the server ends it: a process that froze within one must not
    /// keep rows locked. Default 10 s.
    pub idle_timeout: Duration,
}

impl Default for PoolConfig {
    fn default() -> Self {
        Self {
            max_connections: 8,
            connect_timeout: Duration::from_secs(5),
            request_timeout: Duration::from_secs(30),
            lock_timeout: Duration::from_secs(1),
            idle_timeout: Duration::from_secs(10),
        }
    }
}

/// Reads a Postgres URL and sets what every connection of ours has in common.
pub(super) fn parse(
    url: &str,
    connect_timeout: Duration,
) -> Result<(tokio_postgres::Config, MakeRustlsConnect), StoreError> {
    let (mut config, tls) = tls::parse(url)?;
    // No statement here is worth compiling to machine code, and none is worth an answer that nobody takes: a process
    // that died sends no cancellation.
    add_options(&mut config, "-c jit=off -c client_connection_check_interval=5s");
    config.connect_timeout(connect_timeout);
    config.tcp_user_timeout(Duration::from_secs(15));
    config.keepalives_idle(Duration::from_secs(15));
    if config.get_application_name().is_none() {
        config.application_name("tree-agent");
    }
    Ok((config, tls))
}

/// What the statements of appends, and of leases with their claims, need. Plans made for given array lengths cost more
/// to make than they save. A plan is kept for long, so it must not depend on tables that were small when it was made:
/// index look-ups in the order of the given rows always, which is also the order in which rows are locked.
const ORDERED: &str = "-c plan_cache_mode=force_generic_plan -c enable_seqscan=off -c enable_hashjoin=off \
                       -c enable_mergejoin=off";

/// Puts options before those that are there. The last ones count, which are those of the URL.
fn add_options(config: &mut tokio_postgres::Config, ours: &str) {
    let options = config.get_options().map_or_else(|| ours.to_owned(), |theirs| format!("{ours} {theirs}"));
    config.options(options);
}

/// The pools.
#[derive(Clone)]
pub(super) struct Connections {
    /// Connections on which Postgres plans as it likes.
    free: Pool,
    /// Connections for appends and leases, see [`ORDERED`].
    ordered: Pool,
    /// A permit for each connection that is in use, of either pool.
    permits: Arc<Semaphore>,
    /// Calls that wait for a permit.
    waiting: Arc<AtomicUsize>,
    limits: PoolConfig,
    /// For cancellations, which have connections of their own.
    tls: MakeRustlsConnect,
    /// The connection of renewals, which wait for no other call.
    renewals: Arc<Pipelined>,
}

impl Connections {
    pub(super) fn new(url: &str, config: PoolConfig) -> Result<Self, StoreError> {
        let (mut postgres, tls) = parse(url, config.connect_timeout)?;
        let limits = [
            ("statement_timeout", config.request_timeout),
            ("lock_timeout", config.lock_timeout),
            ("idle_in_transaction_session_timeout", config.idle_timeout),
        ];
        let limits = limits.map(|(name, limit)| format!("-c {name}={}", limit.as_millis().max(1)));
        add_options(&mut postgres, &limits.join(" "));
        let renewals = Pipelined::new(postgres.clone(), tls.clone(), config.request_timeout);
        let mut ordered = postgres.clone();
        add_options(&mut ordered, ORDERED);
        Ok(Self {
            free: pool(postgres, tls.clone(), config)?,
            ordered: pool(ordered, tls.clone(), config)?,
            permits: Arc::new(Semaphore::new(config.max_connections.max(1))),
            waiting: Arc::default(),
            limits: config,
            tls,
            renewals: Arc::new(renewals),
        })
    }

    /// The rows of the one statement that has a connection of its own. Calls are sent at once, also while earlier ones
    /// are not answered yet.
    pub(super) async fn query_beside(
        &self,
        sql: &'static str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, StoreError> {
        self.renewals.query(sql, params).await
    }

    /// Connections and those who wait for one, by what they do.
    pub(super) fn levels(&self) -> Vec<(&'static str, usize)> {
        let (free, ordered) = (self.free.status(), self.ordered.status());
        let idle = free.available + ordered.available;
        vec![
            ("max", free.max_size),
            ("idle", idle),
            ("in_use", (free.size + ordered.size).saturating_sub(idle)),
            ("waiting", self.waiting.load(Ordering::Relaxed)),
        ]
    }

    /// A connection on which Postgres plans as it likes.
    pub(super) async fn take(&self) -> Result<Connection, StoreError> {
        self.take_from(&self.free, &self.ordered).await
    }

    /// A connection for appends and leases.
    pub(super) async fn take_ordered(&self) -> Result<Connection, StoreError> {
        self.take_from(&self.ordered, &self.free).await
    }

    async fn take_from(&self, pool: &Pool, other: &Pool) -> Result<Connection, StoreError> {
        use deadpool_postgres::PoolError;
        let late = "no connection to Postgres in time";
        let waiting = Waiting::among(&self.waiting);
        let permit = tokio::time::timeout(self.limits.connect_timeout, self.permits.clone().acquire_owned());
        let permit = permit.await.map_err(|e| StoreError::unavailable(late, e))?;
        let permit = permit.map_err(|e| StoreError::unavailable(late, e))?;
        drop(waiting);
        if pool.status().available == 0 {
            // A connection more of one kind takes the place of an idle one of the other kind.
            let mut open = pool.status().size + other.status().size;
            other.retain(|_, _| {
                let is_kept = open < self.limits.max_connections;
                open -= usize::from(!is_kept);
                is_kept
            });
        }
        match pool.get().await {
            Ok(object) => Ok(Connection {
                loan: Some(Loan { object, _permit: permit }),
                tls: self.tls.clone(),
                request_timeout: self.limits.request_timeout,
                is_called: false,
                in_transaction: false,
            }),
            Err(PoolError::Backend(e)) => Err(map_error(e)),
            Err(e) => Err(StoreError::unavailable(late, e)),
        }
    }
}

fn pool(
    postgres: tokio_postgres::Config,
    tls: MakeRustlsConnect,
    config: PoolConfig,
) -> Result<Pool, StoreError> {
    let manager =
        Manager::from_config(postgres, tls, ManagerConfig { recycling_method: RecyclingMethod::Fast });
    Pool::builder(manager)
        .max_size(config.max_connections.max(1))
        // The one used last: its server process has its plans and tables in the processor's caches.
        .queue_mode(QueueMode::Lifo)
        .wait_timeout(Some(config.connect_timeout))
        .create_timeout(Some(config.connect_timeout))
        .recycle_timeout(Some(config.connect_timeout))
        .runtime(Runtime::Tokio1)
        .build()
        .map_err(|e| StoreError::broken("the Postgres pool cannot be made", e))
}

/// Counts a call while it waits.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn among(calls: &'a AtomicUsize) -> Self {
        calls.fetch_add(1, Ordering::Relaxed);
        Self(calls)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A statement and its parameters.
pub(super) type Query<'a> = (&'a str, &'a [&'a (dyn ToSql + Sync)]);

/// A connection on loan. A call that takes too long closes it. One that is dropped is cancelled at the server, and the
/// connection counts as in use until it has ended there.
pub(crate) struct Connection {
    loan: Option<Loan>,
    tls: MakeRustlsConnect,
    request_timeout: Duration,
    /// True while a call is made, and for good if it was dropped.
    is_called: bool,
    /// True inside a transaction that was begun and not ended.
    in_transaction: bool,
}

/// The connection goes back before its permit does.
struct Loan {
    object: Object,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Connection {
    /// The next borrower gets neither a transaction nor a call of this one.
    fn drop(&mut self) {
        let Some(loan) = self.loan.take().filter(|_| self.is_called || self.in_transaction) else { return };
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => {
                let end = if self.in_transaction { "ROLLBACK" } else { "" };
                runtime.spawn(loan.clear(end, self.tls.clone(), self.request_timeout));
            }
            Err(_) => loan.discard(),
        }
    }
}

/// A call that was dropped may take so long to end by itself: most do, and then the connection stays.
const GRACE: Duration = Duration::from_millis(100);
/// How often a call is cancelled until it ends: a cancellation that arrives before its call does nothing.
const CANCEL_EVERY: Duration = Duration::from_secs(1);

impl Loan {
    async fn clear(self, end: &'static str, tls: MakeRustlsConnect, limit: Duration) {
        if !self.has_ended(end, tls, limit).await {
            self.discard();
        }
    }

    /// Waits until the server has ended what was called, and cancels it if that takes long. True if the connection can
    /// be used again; after a cancellation it cannot, because another one may still be under way.
    async fn has_ended(&self, end: &str, tls: MakeRustlsConnect, limit: Duration) -> bool {
        // Answered after everything that was sent before.
        let mut ended = Box::pin(self.object.batch_execute(end));
        if let Ok(ended) = tokio::time::timeout(GRACE, &mut ended).await {
            return ended.is_ok();
        }
        let cancel = self.object.cancel_token();
        let cancelled = async {
            loop {
                // Without an answer the next try may have one.
                let _ = tokio::time::timeout(CANCEL_EVERY, cancel.cancel_query(tls.clone())).await;
                if tokio::time::timeout(CANCEL_EVERY, &mut ended).await.is_ok() {
                    return;
                }
            }
        };
        if tokio::time::timeout(limit, cancelled).await.is_err() {
            tracing::warn!("Postgres does not say that a cancelled call has ended; its connection is closed");
        }
        false
    }

    /// Closes the connection instead of returning it to the pool: nobody knows what it is still doing.
    fn discard(self) {
        drop(Object::take(self.object));
    }
}

impl Connection {
    /// The connection, for a call that [`settle`](Self::settle) ends.
    fn call(&mut self) -> Result<&Object, StoreError> {
        let closed = || StoreError::unavailable("the connection was closed", "timed out");
        let loan = self.loan.as_ref().ok_or_else(closed)?;
        self.is_called = true;
        Ok(&loan.object)
    }

    /// The statement for `sql`, prepared once per connection.
    pub(super) async fn prepare(&mut self, sql: &str) -> Result<Statement, StoreError> {
        let limit = self.request_timeout;
        let object = self.call()?;
        let result = with_timeout(limit, object.prepare_cached(sql)).await;
        self.settle(result)
    }

    /// The rows of a cached statement.
    pub(super) async fn query(
        &mut self,
        sql: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, StoreError> {
        let statement = self.prepare(sql).await?;
        let limit = self.request_timeout;
        let object = self.call()?;
        let result = with_timeout(limit, object.query(&statement, params)).await;
        self.settle(result)
    }

    /// The row, if there is one, of a cached statement.
    pub(super) async fn query_opt(
        &mut self,
        sql: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Option<Row>, StoreError> {
        Ok(self.query(sql, params).await?.into_iter().next())
    }

    /// Runs two statements in one transaction and one round trip. Returns the rows of the first.
    pub(super) async fn query_both(
        &mut self,
        first: Query<'_>,
        second: Query<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        let statements = (self.prepare(first.0).await?, self.prepare(second.0).await?);
        self.in_transaction = true;
        let limit = self.request_timeout;
        let object = self.call()?;
        // Each is sent when it is first polled. After a failure COMMIT rolls back.
        let all = async {
            let answers = tokio::join!(
                object.batch_execute("BEGIN"),
                object.query(&statements.0, first.1),
                object.query(&statements.1, second.1),
                object.batch_execute("COMMIT"),
            );
            Ok(answers)
        };
        let result = match with_timeout(limit, all).await {
            Ok((begun, rows, done, ended)) => {
                self.in_transaction = ended.is_err();
                begun.and(rows).and_then(|rows| done.and(ended).map(|()| rows)).map_err(Failure::Postgres)
            }
            Err(failure) => Err(failure),
        };
        self.settle(result)
    }

    /// Begins a transaction.
    pub(super) async fn begin(&mut self) -> Result<(), StoreError> {
        self.in_transaction = true;
        self.batch("BEGIN").await
    }

    /// Begins a transaction that reads as of one moment and writes nothing.
    pub(super) async fn begin_snapshot(&mut self) -> Result<(), StoreError> {
        self.in_transaction = true;
        self.batch("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await
    }

    /// Ends the transaction: commits a success, rolls back a failure.
    pub(super) async fn end<T>(&mut self, result: Result<T, StoreError>) -> Result<T, StoreError> {
        let ended = self.batch(if result.is_ok() { "COMMIT" } else { "ROLLBACK" }).await;
        self.in_transaction = ended.is_err();
        match result {
            Ok(value) => ended.map(|()| value),
            Err(error) => Err(error),
        }
    }

    /// Ends the transaction without effect.
    pub(super) async fn roll_back(&mut self) -> Result<(), StoreError> {
        let ended = self.batch("ROLLBACK").await;
        self.in_transaction = ended.is_err();
        ended
    }

    /// Runs a statement that is not worth caching.
    pub(super) async fn execute(&mut self, sql: &str) -> Result<(), StoreError> {
        self.batch(sql).await
    }

    async fn batch(&mut self, sql: &str) -> Result<(), StoreError> {
        let limit = self.request_timeout;
        let object = self.call()?;
        let result = with_timeout(limit, object.batch_execute(sql)).await;
        self.settle(result)
    }

    fn settle<T>(&mut self, result: Result<T, Failure>) -> Result<T, StoreError> {
        self.is_called = false;
        result.map_err(|failure| match failure {
            Failure::Postgres(error) => map_error(error),
            Failure::TimedOut => {
                if let Some(loan) = self.loan.take() {
                    loan.discard();
                }
                no_answer(self.request_timeout)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use tree_agent_testkit::services::PrivatePostgres;

    use super::*;

    /// The client tells what is its own fault only in words, so these come from the client itself.
    #[tokio::test]
    async fn what_cannot_be_encoded_or_is_too_large_is_not_repeated() {
        let server = tokio::task::spawn_blocking(PrivatePostgres::start).await.unwrap().unwrap();
        let connections =
            Connections::new(&server.create_database().unwrap(), PoolConfig::default()).unwrap();
        let mut connection = connections.take().await.unwrap();
        let failures = [
            ("a parameter of another type", connection.query("SELECT $1::int8", &[&"text"]).await.err()),
            ("a parameter too few", connection.query("SELECT $1::int8", &[]).await.err()),
            ("a statement that is no C string", connection.execute("SELECT 1 \0").await.err()),
            // Larger than a value may be: refused by the server.
            ("a value of a gigabyte", connection.query("SELECT repeat('x', 1 << 30)", &[]).await.err()),
        ];
        for (what, failure) in failures {
            let failure = failure.expect(what);
            assert!(matches!(failure, StoreError::Broken { .. }), "{what}: {failure:?}");
            assert!(!failure.is_transient(), "{what}: {failure:?}");
        }
        // The connection works on, also in a transaction of two statements of which one is refused.
        let refused = connection.query_both(("SELECT 1 / 0", &[]), ("SELECT 1", &[])).await.unwrap_err();
        assert!(!refused.is_transient(), "{refused:?}");
        assert!(!connection.in_transaction);
        assert_eq!(connection.query_both(("SELECT 1", &[]), ("SELECT 2", &[])).await.unwrap().len(), 1);
    }

    #[tokio::test]
    async fn appends_have_a_planner_of_their_own_and_both_kinds_share_the_maximum() {
        let server = tokio::task::spawn_blocking(PrivatePostgres::start).await.unwrap().unwrap();
        let config = PoolConfig {
            max_connections: 2,
            connect_timeout: Duration::from_secs(2),
            ..PoolConfig::default()
        };
        let connections = Connections::new(&server.create_database().unwrap(), config).unwrap();
        let shown = async |connection: &mut Connection, what: &str| {
            connection.query(&format!("SHOW {what}"), &[]).await.unwrap()[0].get::<_, String>(0)
        };
        let (mut free, mut ordered) =
            (connections.take().await.unwrap(), connections.take_ordered().await.unwrap());
        for switch in ["enable_seqscan", "enable_hashjoin", "enable_mergejoin"] {
            assert_eq!(shown(&mut free, switch).await, "on", "{switch}");
            assert_eq!(shown(&mut ordered, switch).await, "off", "{switch}");
        }
        assert_eq!(shown(&mut free, "plan_cache_mode").await, "auto");
        assert_eq!(shown(&mut ordered, "plan_cache_mode").await, "force_generic_plan");
        assert!(connections.take().await.err().unwrap().is_transient(), "no third one");
        let open = |levels: Vec<(&str, usize)>| levels[1].1 + levels[2].1;
        drop((free, ordered));
        for _ in 0..2 {
            // An idle one of the other kind makes room.
            let both = (connections.take().await.unwrap(), connections.take().await.unwrap());
            assert_eq!(open(connections.levels()), 2);
            drop(both);
            let both = (connections.take_ordered().await.unwrap(), connections.take_ordered().await.unwrap());
            assert_eq!(open(connections.levels()), 2);
            drop(both);
        }
        assert_eq!(connections.levels()[3], ("waiting", 0));
    }

    /// A server, and two connections to it that are in use until they have ended what they were called for.
    async fn two_connections() -> (PrivatePostgres, Connections) {
        let server = tokio::task::spawn_blocking(PrivatePostgres::start).await.unwrap().unwrap();
        let config = PoolConfig { max_connections: 2, ..PoolConfig::default() };
        let connections = Connections::new(&server.create_database().unwrap(), config).unwrap();
        (server, connections)
    }

    async fn all_are_free(connections: &Connections) {
        let all = connections.permits.acquire_many(2);
        let all = tokio::time::timeout(Duration::from_secs(10), all).await;
        drop(all.expect("what was dropped has ended").unwrap());
    }

    const BUSY: &str = "SELECT count(*) FROM pg_stat_activity WHERE state <> 'idle' AND pid <> pg_backend_pid() \
                        AND backend_type = 'client backend'";

    #[tokio::test]
    async fn a_call_that_is_dropped_ends_at_the_server_and_its_permit_with_it() {
        let (_server, connections) = two_connections().await;
        for begins in [false, true] {
            let sleeper = |connections: Connections| async move {
                let mut connection = connections.take().await.unwrap();
                if begins {
                    connection.begin().await.unwrap();
                }
                connection.query("SELECT pg_sleep(600)", &[]).await.map(drop)
            };
            let calls = [(); 2].map(|()| tokio::spawn(sleeper(connections.clone())));
            // Until both sleep, and a connection is not to be had.
            while let Ok(taken) = tokio::time::timeout(Duration::from_millis(200), connections.take()).await {
                drop(taken.unwrap());
            }
            calls.iter().for_each(tokio::task::JoinHandle::abort);
            for call in calls {
                assert!(call.await.unwrap_err().is_cancelled());
            }
            assert_eq!(connections.levels()[2], ("in_use", 2), "they end first");
            all_are_free(&connections).await;
            let mut next = connections.take().await.unwrap();
            assert_eq!(next.query(BUSY, &[]).await.unwrap()[0].get::<_, i64>(0), 0);
        }
    }

    /// Each is dropped at another moment of its life, also while it is prepared, or just before its answer.
    #[tokio::test]
    async fn whenever_a_call_is_dropped_the_next_borrower_has_its_own_answer() {
        let (_server, connections) = two_connections().await;
        for i in 0..400_u64 {
            let call = async {
                let mut connection = connections.take().await.unwrap();
                let work = format!("SELECT 0 AS n{} FROM generate_series(1, {})", i % 40, i * 20);
                connection.query(&work, &[]).await.unwrap();
                connection.query_both((&work, &[]), ("SELECT 1", &[])).await.unwrap();
            };
            let _ = tokio::time::timeout(Duration::from_micros(i * 25), call).await;
            let mut next = connections.take().await.unwrap();
            let told =
                next.query("SELECT $1::int8, txid_current_if_assigned()", &[&(i as i64)]).await.unwrap();
            assert_eq!((told.len(), told[0].get::<_, i64>(0)), (1, i as i64));
            assert_eq!(told[0].get::<_, Option<i64>>(1), None, "of an earlier transaction");
        }
        all_are_free(&connections).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn connections_are_free_again_when_postgres_restarts_while_calls_are_cancelled() {
        let (mut server, connections) = two_connections().await;
        for _ in 0..3 {
            let calls = [(); 2].map(|()| {
                let connections = connections.clone();
                tokio::spawn(async move {
                    let mut connection = connections.take().await?;
                    connection.query("SELECT pg_sleep(600)", &[]).await
                })
            });
            while connections.permits.available_permits() > 0 {
                tokio::task::yield_now().await;
            }
            calls.iter().for_each(tokio::task::JoinHandle::abort);
            // A server that shuts down waits for its clients, whose calls are being cancelled.
            tokio::task::block_in_place(|| {
                server.stop();
                server.start_again().unwrap();
            });
            all_are_free(&connections).await;
            // The pool may still hold connections of before.
            let works = async {
                loop {
                    let Ok(mut next) = connections.take().await else { continue };
                    if next.query("SELECT 1", &[]).await.is_ok() {
                        return;
                    }
                }
            };
            tokio::time::timeout(Duration::from_secs(20), works).await.expect("it works again");
        }
    }
}
