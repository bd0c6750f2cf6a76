//! `ServerService`.

use std::sync::Arc;
use std::time::Duration;

use tonic::{Request, Response, Status};
use tree_agent_contract::error::Checks;
use tree_agent_contract::event::SCHEMA_VERSION;
use tree_agent_contract::{Budgets, MemberRole, Strategy, limits};
use tree_agent_proto::v1::server_service_server::ServerService;
use tree_agent_proto::{ERROR_DOMAIN, Wire, v1 as pb};
use tree_agent_runtime::Readiness;

use crate::gateway::Gateway;
use crate::maxima::Maxima;
use crate::view::View;
use crate::{cluster, errors};

/// How long role services may take to say what their default model is.
const PATIENCE: Duration = Duration::from_millis(500);
/// Strategies that this version has.
pub const STRATEGIES: &[Strategy] = Strategy::ALL;

/// The service.
pub(crate) struct ServerInfo {
    pub(crate) gateway: Arc<Gateway>,
    /// True when calls need a token.
    pub(crate) authentication: bool,
    /// How store and fan-out are.
    pub(crate) readiness: Readiness,
}

impl ServerInfo {
    /// The budgets of a run that asks for none.
    fn default_budgets(&self, strategy: Strategy) -> Budgets {
        let mut budgets = Budgets::of(strategy);
        // What was not asked for cannot be too much.
        self.gateway.maxima.apply(&pb::Budgets::default(), &mut budgets, &mut Checks::default());
        budgets
    }
}

#[tonic::async_trait]
impl ServerService for ServerInfo {
    async fn get_server_info(
        &self,
        request: Request<pb::GetServerInfoRequest>,
    ) -> Result<Response<pb::GetServerInfoResponse>, Status> {
        let view = self.gateway.view(request.extensions()).await?;
        Ok(Response::new(pb::GetServerInfoResponse {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            // Errors carry the name of the package too.
            api_version: ERROR_DOMAIN.to_owned(),
            strategies: STRATEGIES.to_vec().to_wire(),
            limits: Some(limits(&self.gateway.maxima)),
            default_budgets: Some(self.default_budgets(Strategy::Tree).to_wire()),
            default_search_budgets: Some(self.default_budgets(Strategy::Search).to_wire()),
            authentication: self.authentication,
            ui: crate::web::has_ui(),
            default_model: self.gateway.models.describe("", PATIENCE).await.model,
            schema_version: self.gateway.store.schema_version(),
            event_schema_version: SCHEMA_VERSION,
            caller: Some(caller(&view)),
        }))
    }

    async fn get_status(
        &self,
        _: Request<pb::GetStatusRequest>,
    ) -> Result<Response<pb::GetStatusResponse>, Status> {
        let (store, levels) = (&self.gateway.store, self.readiness.levels());
        let is_down = |name| levels.get(name) == Some(&false);
        // It is known already, and asking would take its time.
        if is_down("store") {
            let problems = vec!["the store cannot be reached, so nothing else is known".to_owned()];
            return Ok(Response::new(pb::GetStatusResponse { problems, ..Default::default() }));
        }
        let state = store.cluster().await.map_err(errors::store)?;
        let pending = match &self.gateway.meaning {
            Some(_) => Some(store.count_unembedded().await.map_err(errors::store)?),
            None => None,
        };
        let mut status = cluster::status(&state, pending);
        if is_down("fanout") {
            status.problems.push("Redis cannot be reached; watchers are up to a second behind".to_owned());
        }
        Ok(Response::new(status))
    }
}

fn caller(view: &View) -> pb::Caller {
    let count = |role| u32::try_from(view.count(role)).unwrap_or(u32::MAX);
    pb::Caller {
        user_id: view.user().to_owned(),
        administrator: view.is_administrator(),
        reader_of: count(MemberRole::Reader),
        editor_of: count(MemberRole::Editor),
        owner_of: count(MemberRole::Owner),
    }
}

fn limits(maxima: &Maxima) -> pb::Limits {
    // Every limit is far below what a u32 can hold.
    let small = |limit: usize| u32::try_from(limit).unwrap_or(u32::MAX);
    pb::Limits {
        page_size_default: small(limits::PAGE_DEFAULT),
        page_size_max: small(limits::PAGE_MAX),
        message_bytes: limits::MESSAGE_BYTES as u64,
        graph_bytes: limits::GRAPH_BYTES as u64,
        objective_bytes: small(limits::OBJECTIVE_BYTES),
        document_bytes: small(limits::DOCUMENT_BYTES),
        request_id_bytes: small(limits::REQUEST_ID_BYTES),
        display_name_bytes: small(limits::DISPLAY_NAME_BYTES),
        labels: small(limits::RUN_LABELS),
        label_key_bytes: small(limits::LABEL_KEY_BYTES),
        label_value_bytes: small(limits::LABEL_VALUE_BYTES),
        context_projects: small(limits::CONTEXT_PROJECTS),
        prompt_bytes: small(limits::PROMPT_BYTES),
        max_budgets: Some(maxima.to_wire()),
    }
}
