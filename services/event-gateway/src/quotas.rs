//! What one user may have. Without authentication everybody is one user.
//!
//! Runs are counted in the database, so those limits are of the whole cluster. What a user has open or under way at the
//! same time is counted by each gateway for itself ([`Shares`]).

use std::time::Duration;

use clap::Args;
use tonic::Status;
use tree_agent_contract::{Budgets, Timestamp, limits};
use tree_agent_convert::worker;
use tree_agent_proto::v1 as pb;
use tree_agent_runtime::config::Problems;
use tree_agent_runtime::errors::exhausted;
use tree_agent_store::Store;

use crate::errors;
use crate::shares::{Limits, Share, Shares};

/// The limits of a user. None means that there is no limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quotas {
    /// Runs that have not ended.
    pub live_runs: Option<u64>,
    /// Runs that are created within a minute.
    pub new_runs: Option<u64>,
    /// Tokens that the runs of a day may use.
    pub tokens: Option<u64>,
    /// What the runs of a day may cost, in millionths of a US dollar.
    pub cost_micros: Option<u64>,
    /// Streams that are open.
    pub streams: Option<u64>,
    /// Searches at the same time. Default 8, as many as a gateway serves.
    pub searches: u64,
    /// Files that are converted at the same time. Default 2, as many as a gateway converts.
    pub conversions: u64,
    /// MiB of documents and files that are received at the same time, half of what a gateway receives. Default 64.
    pub import_mib: u64,
}

/// Searches that a gateway serves at the same time: as many as it has connections to the database by default.
const SEARCHES: u64 = 8;

impl Default for Quotas {
    fn default() -> Self {
        Self {
            live_runs: None,
            new_runs: None,
            tokens: None,
            cost_micros: None,
            streams: None,
            searches: SEARCHES,
            conversions: worker::PARALLEL as u64,
            import_mib: 64,
        }
    }
}

/// The variables of [`Quotas`].
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Limits of a user")]
pub struct QuotaArgs {
    /// Runs of a user that have not ended [default: no limit]
    #[arg(long, env = "TREE_AGENT_USER_LIVE_RUNS", value_name = "N")]
    pub user_live_runs: Option<String>,
    /// Runs that a user may create within a minute [default: no limit]
    #[arg(long, env = "TREE_AGENT_USER_NEW_RUNS", value_name = "N")]
    pub user_new_runs: Option<String>,
    /// Tokens that a user's runs of the last day may have used before a new one is refused [default: no limit]
    #[arg(long, env = "TREE_AGENT_USER_TOKENS", value_name = "N")]
    pub user_tokens: Option<String>,
    /// What a user's runs of the last day may have cost, in millionths of a US dollar [default: no limit]
    #[arg(long, env = "TREE_AGENT_USER_COST_MICROS", value_name = "N")]
    pub user_cost_micros: Option<String>,
    /// Streams that a user may have open on one gateway [default: no limit]
    #[arg(long, env = "TREE_AGENT_USER_STREAMS", value_name = "N")]
    pub user_streams: Option<String>,
    /// Searches of a user at the same time on one gateway, which serves 8; further ones wait.
    #[arg(long, env = "TREE_AGENT_USER_SEARCHES", value_name = "N", default_value = "8")]
    pub user_searches: String,
    /// Files of a user that one gateway converts at the same time, of 2; further ones wait.
    #[arg(long, env = "TREE_AGENT_USER_CONVERSIONS", value_name = "N", default_value = "2")]
    pub user_conversions: String,
    /// MiB of documents and files that one gateway receives from a user at the same time; further ones wait. All users
    /// together have twice as much.
    #[arg(long, env = "TREE_AGENT_USER_IMPORT_MIB", value_name = "MIB", default_value = "64")]
    pub user_import_mib: String,
}

impl QuotaArgs {
    /// Checks the arguments; what is wrong is noted in `problems`.
    pub fn check(&self, problems: &mut Problems) -> Quotas {
        let mut optional = |name, text: &Option<String>| {
            let text = text.as_deref().filter(|text| !text.trim().is_empty())?;
            Some(problems.number(name, text, 1..=limits::USAGE))
        };
        let live_runs = optional("TREE_AGENT_USER_LIVE_RUNS", &self.user_live_runs);
        let new_runs = optional("TREE_AGENT_USER_NEW_RUNS", &self.user_new_runs);
        let tokens = optional("TREE_AGENT_USER_TOKENS", &self.user_tokens);
        let cost_micros = optional("TREE_AGENT_USER_COST_MICROS", &self.user_cost_micros);
        let streams = optional("TREE_AGENT_USER_STREAMS", &self.user_streams);
        Quotas {
            live_runs,
            new_runs,
            tokens,
            cost_micros,
            streams,
            searches: problems.number("TREE_AGENT_USER_SEARCHES", &self.user_searches, 1..=SEARCHES),
            conversions: problems.number(
                "TREE_AGENT_USER_CONVERSIONS",
                &self.user_conversions,
                1..=worker::PARALLEL as u64,
            ),
            import_mib: problems.number("TREE_AGENT_USER_IMPORT_MIB", &self.user_import_mib, 12..=65_536),
        }
    }
}

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);

/// The limits of users, with what they have on this gateway.
pub(crate) struct Users {
    quotas: Quotas,
    pub(crate) streams: Shares,
    pub(crate) searches: Shares,
    pub(crate) conversions: Shares,
    pub(crate) imports: Shares,
    /// One new run of a user after the other, so that each counts those before it.
    creations: Shares,
}

impl Users {
    pub(crate) fn new(quotas: &Quotas) -> Self {
        let seconds = Duration::from_secs;
        let shares = |what, setting, total, each, patience| {
            Shares::new(Limits { what, total, each, setting, patience })
        };
        let mib = quotas.import_mib << 20;
        Self {
            streams: shares(
                "streams",
                "TREE_AGENT_USER_STREAMS",
                u64::MAX,
                quotas.streams.unwrap_or(u64::MAX),
                Duration::ZERO,
            ),
            searches: shares("searches", "TREE_AGENT_USER_SEARCHES", SEARCHES, quotas.searches, seconds(10)),
            conversions: shares(
                "files in conversion",
                "TREE_AGENT_USER_CONVERSIONS",
                worker::PARALLEL as u64,
                quotas.conversions,
                seconds(60),
            ),
            imports: shares("bytes on their way", "TREE_AGENT_USER_IMPORT_MIB", 2 * mib, mib, seconds(60)),
            creations: shares("requests for a new run", "", u64::MAX, 1, seconds(10)),
            quotas: quotas.clone(),
        }
    }

    /// The turn of `user` to create a run, which is kept until it is created. None if nothing is counted.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` if other requests of the user take too long.
    pub(crate) async fn turn(&self, user: &str) -> Result<Option<Share>, Status> {
        let Quotas { live_runs, new_runs, tokens, cost_micros, .. } = self.quotas;
        match [live_runs, new_runs, tokens, cost_micros].iter().all(Option::is_none) {
            true => Ok(None),
            false => Ok(Some(self.creations.take(user, 1).await?)),
        }
    }

    /// Admits a new run of `user`, whose [`turn`](Self::turn) it is. A budget that it did not ask for is brought within
    /// what the user may still use.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` with the setting that is in the way.
    pub(crate) async fn admit_run(
        &self,
        store: &dyn Store,
        user: &str,
        now: Timestamp,
        asked: &pb::Budgets,
        budgets: &mut Budgets,
    ) -> Result<(), Status> {
        let Quotas { live_runs, new_runs, tokens, cost_micros, .. } = self.quotas;
        if [live_runs, new_runs, tokens, cost_micros].iter().all(Option::is_none) {
            return Ok(());
        }
        let used = store.used_by(user, now).await.map_err(errors::store)?;
        for (what, count, limit, setting, retry) in [
            ("live runs", used.live, live_runs, "TREE_AGENT_USER_LIVE_RUNS", MINUTE),
            ("new runs within a minute", used.new, new_runs, "TREE_AGENT_USER_NEW_RUNS", MINUTE / 6),
        ] {
            if let Some(limit) = limit.filter(|limit| count >= *limit) {
                let text = format!("you have {count} {what}; a user may have {limit} ({setting})");
                return Err(exhausted("USER_QUOTA", text, retry));
            }
        }
        for (what, used, limit, setting, asked, budget) in [
            (
                "tokens",
                used.tokens,
                tokens,
                "TREE_AGENT_USER_TOKENS",
                asked.max_tokens,
                &mut budgets.max_tokens,
            ),
            (
                "millionths of a US dollar",
                used.cost_micros,
                cost_micros,
                "TREE_AGENT_USER_COST_MICROS",
                asked.max_cost_micros,
                &mut budgets.max_cost_micros,
            ),
        ] {
            let Some(limit) = limit else { continue };
            let left = limit.saturating_sub(used);
            let asked = asked.filter(|asked| *asked > 0).unwrap_or_default();
            if left == 0 || asked > left {
                let text = format!(
                    "your runs of the last day have used {used} {what}, or may use them still, of {limit} ({setting}); \
                     ask for at most {left}"
                );
                return Err(exhausted("USER_QUOTA", text, HOUR));
            }
            *budget = Some(budget.map_or(left, |budget| budget.min(left)));
        }
        Ok(())
    }
}
