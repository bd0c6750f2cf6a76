//! The list of runs, page by page.

use tree_agent_contract::{RunSummary, limits};
use tree_agent_proto::Wire;
use tree_agent_proto::v1 as pb;

use super::Client;
use crate::error::CliError;

/// Runs that match a filter, newest first.
pub(crate) struct Runs<'a> {
    client: &'a Client,
    filter: pb::ListRunsRequest,
    /// Runs still wanted.
    left: usize,
    /// False on the last page.
    more: bool,
}

impl Client {
    /// At most `limit` runs that match `filter`.
    pub(crate) fn list_runs(&self, filter: pb::ListRunsRequest, limit: usize) -> Runs<'_> {
        Runs { client: self, filter, left: limit, more: true }
    }
}

impl Runs<'_> {
    /// The runs of the next page; none when there are no further pages or runs wanted.
    pub(crate) async fn page(&mut self) -> Result<Option<Vec<RunSummary>>, CliError> {
        if !self.more || self.left == 0 {
            return Ok(None);
        }
        self.filter.page_size = self.left.min(limits::PAGE_MAX) as u32;
        let page = self.client.ask(self.filter.clone()).await?;
        self.more = !page.next_page_token.is_empty();
        self.filter.page_token = page.next_page_token;
        let runs = page.runs.into_iter().take(self.left);
        let runs = runs.map(RunSummary::from_wire).collect::<Result<Vec<_>, _>>()?;
        self.left -= runs.len();
        Ok(Some(runs))
    }

    /// All of them.
    pub(crate) async fn all(mut self) -> Result<Vec<RunSummary>, CliError> {
        let mut all = Vec::new();
        while let Some(page) = self.page().await? {
            all.extend(page);
        }
        Ok(all)
    }

    /// True when there are runs beyond the limit.
    pub(crate) fn has_more(&self) -> bool {
        self.more
    }
}
