//! An append as the arrays that are the parameters of its statement.

use std::borrow::Cow;

use deadpool_postgres::tokio_postgres::types::ToSql;
use tree_agent_contract::event::Event;
use tree_agent_contract::ids::EventId;
use tree_agent_contract::session::Session;
use tree_agent_contract::{RunId, SessionId, Timestamp};
use uuid::Uuid;

use super::append_sql::BranchSet;
use super::types::{JsonText, Time};
use crate::batch::{last_of_each, last_progress};
use crate::document_writes::{CreateWrite, DocumentWrites, LinkWrite};
use crate::error::StoreError;
use crate::ports::{Answer, Projection, RunAppend, RunRow};
use crate::text::{clean, clean_json};

pub(super) use crate::types::json;

/// The columns of one branch of the statement.
trait Branch {
    /// Adds the columns in the order of the statement.
    fn push<'p>(&'p self, out: &mut Vec<&'p (dyn ToSql + Sync)>);

    /// Reserves room for this many more rows.
    fn reserve(&mut self, rows: usize);
}

macro_rules! columns {
    ($($(#[$doc:meta])* $name:ident $(<$lt:lifetime>)? { $($field:ident: $type:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(Default)]
        struct $name $(<$lt>)? { $($field: Vec<$type>,)* }

        impl $(<$lt>)? Branch for $name $(<$lt>)? {
            fn push<'p>(&'p self, out: &mut Vec<&'p (dyn ToSql + Sync)>) {
                $(out.push(&self.$field);)*
            }

            fn reserve(&mut self, rows: usize) {
                $(self.$field.reserve(rows);)*
            }
        }
    )*};
}

columns! {
    Heads { id: Uuid, epoch: i64, expected: i64, head: i64, at: Time, progress: i64, }

    RunRows<'a> {
        status: Option<&'static str>, partial: Option<bool>, error: Option<Cow<'a, str>>, node_count: Option<i64>,
        usage: Option<JsonText>, started: Option<Time>, ended: Option<Time>,
    }

    Events<'a> {
        run: Uuid, seq: i64, id: Uuid, node: Uuid, parent: Option<Uuid>, event_type: &'a str, payload: JsonText,
        at: Time,
    }

    Nodes<'a> {
        run: Uuid, id: Uuid, parent: Option<Uuid>, title: Cow<'a, str>, reason: Cow<'a, str>, criteria: JsonText,
        band: Option<i32>, step: Option<i32>, depth: i32, status: &'static str, role: &'static str,
        scratchpad: Option<Uuid>, started: Option<Time>, ended: Option<Time>, created: Time, updated: Time,
    }

    Plans { run: Uuid, id: Uuid, node: Uuid, version: i32, plan: JsonText, created: Time, }

    Artifacts<'a> {
        run: Uuid, id: Uuid, node: Uuid, artifact_type: &'static str, document: Option<Uuid>,
        payload: Option<JsonText>, primary: bool, label: Cow<'a, str>, created: Time,
    }

    Creates<'a> {
        run: Uuid, id: Uuid, type_key: &'static str, path: Cow<'a, str>, title: Cow<'a, str>, body: Cow<'a, str>,
        props: JsonText, created: Time, updated: Time, base: i64, created_seq: i64, parent: Option<Uuid>,
        linked_seq: Option<i64>, linked_at: Option<Time>, parent_is_new: bool,
    }

    Appends<'a> {
        run: Uuid, id: Uuid, seq: i64, base: Option<i64>, start: i64, body: Cow<'a, str>, replaces: bool, at: Time,
    }

    Commands { run: Uuid, id: i64, }

    Replies<'a> { run: Uuid, request_id: Cow<'a, str>, reply: JsonText, }

    Sessions<'a> {
        run: Uuid, id: &'a str, node: Uuid, parent: Option<&'a str>, messages: JsonText, created: Time,
    }
}

/// All columns of one append.
#[derive(Default)]
pub(super) struct Columns<'a> {
    heads: Heads,
    runs: RunRows<'a>,
    events: Events<'a>,
    nodes: Nodes<'a>,
    plans: Plans,
    artifacts: Artifacts<'a>,
    creates: Creates<'a>,
    appends: Appends<'a>,
    commands: Commands,
    sessions: Sessions<'a>,
    replies: Replies<'a>,
    /// Places of documents that were there before. They have a statement of their own.
    pub(super) links: Vec<(RunId, LinkWrite)>,
}

impl<'a> Columns<'a> {
    /// The columns of `appends`.
    ///
    /// Runs are in the order of their ids, so that two writers lock them in the same order.
    pub(super) fn of(appends: &'a [RunAppend]) -> Result<Self, StoreError> {
        let mut columns = Self::default();
        columns.heads.reserve(appends.len());
        columns.runs.reserve(appends.len());
        columns.events.reserve(appends.iter().map(|append| append.events.len()).sum());
        columns.nodes.reserve(appends.iter().map(|append| append.projection.nodes.len()).sum());
        let mut order: Vec<&RunAppend> = appends.iter().collect();
        order.sort_unstable_by_key(|append| append.run_id);
        for append in order {
            let run = append.run_id;
            let last = append.events.last().map(|e| (e.seq, e.timestamp)).unwrap_or_default();
            columns.head(run, append.epoch, append.expected_head, last);
            columns.heads.progress.push(last_progress(&append.events) as i64);
            for event in &append.events {
                columns.event(event, append.epoch);
            }
            columns.projection(run, &append.projection)?;
            let first = append.expected_head + 1;
            columns.documents(run, DocumentWrites::merge(&append.documents, first, last.0))?;
            columns.answers(run, &append.answers)?;
            columns.sessions(run, &append.sessions)?;
        }
        Ok(columns)
    }

    fn answers(&mut self, run: RunId, answers: &'a [Answer]) -> Result<(), StoreError> {
        for Answer { id, request_id, reply } in answers {
            self.commands.run.push(run.0);
            self.commands.id.push(*id);
            if !request_id.is_empty() {
                self.replies.run.push(run.0);
                self.replies.request_id.push(clean(request_id));
                self.replies.reply.push(json(reply)?);
            }
        }
        Ok(())
    }

    /// The columns that replace the projection of a run without moving its head.
    pub(super) fn of_projection(
        run: RunId,
        epoch: i64,
        head: (u64, Timestamp),
        projection: &'a Projection,
    ) -> Result<Self, StoreError> {
        let mut columns = Self::default();
        columns.head(run, epoch as u64, head.0, head);
        columns.heads.progress.push(0);
        columns.projection(run, projection)?;
        Ok(columns)
    }

    /// The branches that the statement needs.
    pub(super) fn shape(&self) -> BranchSet {
        let mut shape = BranchSet::default();
        shape.add(BranchSet::RUN, self.runs.status.iter().any(Option::is_some));
        shape.add(BranchSet::EVENTS, !self.events.run.is_empty());
        shape.add(BranchSet::NODES, !self.nodes.run.is_empty());
        shape.add(BranchSet::PLANS, !self.plans.run.is_empty());
        shape.add(BranchSet::ARTIFACTS, !self.artifacts.run.is_empty());
        shape.add(BranchSet::CREATES, !self.creates.run.is_empty());
        shape.add(BranchSet::APPENDS, !self.appends.run.is_empty());
        shape.add(BranchSet::COMMANDS, !self.commands.run.is_empty());
        shape.add(BranchSet::SESSIONS, !self.sessions.run.is_empty());
        shape.add(BranchSet::REPLIES, !self.replies.run.is_empty());
        shape
    }

    /// The parameters of the statement of `shape`.
    pub(super) fn params(&self, shape: BranchSet) -> Vec<&(dyn ToSql + Sync)> {
        let mut out = Vec::with_capacity(48);
        self.heads.push(&mut out);
        for (bit, branch) in [
            (BranchSet::RUN, &self.runs as &dyn Branch),
            (BranchSet::EVENTS, &self.events),
            (BranchSet::NODES, &self.nodes),
            (BranchSet::PLANS, &self.plans),
            (BranchSet::ARTIFACTS, &self.artifacts),
            (BranchSet::CREATES, &self.creates),
            (BranchSet::APPENDS, &self.appends),
            (BranchSet::COMMANDS, &self.commands),
            (BranchSet::SESSIONS, &self.sessions),
            (BranchSet::REPLIES, &self.replies),
        ] {
            if shape.has(bit) {
                branch.push(&mut out);
            }
        }
        out
    }

    fn head(&mut self, run: RunId, epoch: u64, expected: u64, last: (u64, Timestamp)) {
        self.heads.id.push(run.0);
        self.heads.epoch.push(epoch as i64);
        self.heads.expected.push(expected as i64);
        self.heads.head.push(last.0 as i64);
        self.heads.at.push(Time(last.1));
    }

    fn sessions(&mut self, run: RunId, sessions: &'a [Session]) -> Result<(), StoreError> {
        let columns = &mut self.sessions;
        for session in sessions {
            columns.run.push(run.0);
            columns.id.push(session.id.as_str());
            columns.node.push(session.node_id.0);
            columns.parent.push(session.parent_id.as_ref().map(SessionId::as_str));
            columns.messages.push(json(&session.messages)?);
            columns.created.push(Time(session.created_at));
        }
        Ok(())
    }

    fn event(&mut self, event: &'a Event, epoch: u64) {
        let columns = &mut self.events;
        columns.run.push(event.run_id.0);
        columns.seq.push(event.seq as i64);
        columns.id.push(EventId::of(event.run_id, epoch, event.seq).0);
        columns.node.push(event.node_id.0);
        columns.parent.push(event.parent_node_id.map(|id| id.0));
        columns.event_type.push(event.body.event_type());
        columns.payload.push(JsonText(clean_json(event.payload_json())));
        columns.at.push(Time(event.timestamp));
    }

    fn projection(&mut self, run: RunId, projection: &'a Projection) -> Result<(), StoreError> {
        let row: Option<&RunRow> = projection.run.as_ref();
        self.runs.status.push(row.map(|r| r.status.as_str()));
        self.runs.partial.push(row.map(|r| r.partial));
        self.runs.error.push(row.and_then(|r| r.error.as_deref()).map(clean));
        self.runs.node_count.push(row.map(|r| r.node_count as i64));
        self.runs.usage.push(row.map(|r| json(&r.usage_column())).transpose()?);
        self.runs.started.push(row.and_then(|r| r.started_at).map(Time));
        self.runs.ended.push(row.and_then(|r| r.ended_at).map(Time));
        for node in last_of_each(&projection.nodes, |n| n.id) {
            let columns = &mut self.nodes;
            columns.run.push(run.0);
            columns.id.push(node.id.0);
            columns.parent.push(node.parent_node_id.map(|id| id.0));
            columns.title.push(clean(&node.title));
            columns.reason.push(clean(&node.reason));
            columns.criteria.push(json(&node.success_criteria)?);
            columns.band.push(node.band_index.map(|i| i as i32));
            columns.step.push(node.step_index.map(|i| i as i32));
            columns.depth.push(node.depth as i32);
            columns.status.push(node.status.as_str());
            columns.role.push(node.role_state.as_str());
            columns.scratchpad.push(node.scratchpad_doc_id.map(|id| id.0));
            columns.started.push(node.started_at.map(Time));
            columns.ended.push(node.ended_at.map(Time));
            columns.created.push(Time(node.created_at));
            columns.updated.push(Time(node.updated_at));
        }
        for plan in last_of_each(&projection.plans, |p| p.id) {
            let columns = &mut self.plans;
            columns.run.push(run.0);
            columns.id.push(plan.id.0);
            columns.node.push(plan.node_id.0);
            columns.version.push(plan.version as i32);
            columns.plan.push(json(&plan.plan_json)?);
            columns.created.push(Time(plan.created_at));
        }
        for artifact in last_of_each(&projection.artifacts, |a| a.id) {
            let columns = &mut self.artifacts;
            columns.run.push(run.0);
            columns.id.push(artifact.id.0);
            columns.node.push(artifact.node_id.0);
            columns.artifact_type.push(artifact.artifact_type.as_str());
            columns.document.push(artifact.document_id.map(|id| id.0));
            columns.payload.push(artifact.json_payload.as_ref().map(json).transpose()?);
            columns.primary.push(artifact.is_primary);
            columns.label.push(clean(&artifact.label));
            columns.created.push(Time(artifact.created_at));
        }
        Ok(())
    }

    fn documents(&mut self, run: RunId, writes: DocumentWrites<'a>) -> Result<(), StoreError> {
        for create in writes.creates {
            self.create(run, create)?;
        }
        self.links.extend(writes.links.into_iter().map(|link| (run, link)));
        for chunk in writes.appends {
            let columns = &mut self.appends;
            columns.run.push(run.0);
            columns.id.push(chunk.id.0);
            columns.seq.push(chunk.seq as i64);
            columns.base.push(chunk.base.map(|base| base as i64));
            columns.start.push(chunk.offset as i64);
            columns.body.push(chunk.text);
            columns.replaces.push(chunk.replaces);
            columns.at.push(Time(chunk.at));
        }
        Ok(())
    }

    fn create(&mut self, run: RunId, create: CreateWrite<'a>) -> Result<(), StoreError> {
        let CreateWrite { document, created_seq, base_seq, link, parent_is_new } = create;
        let columns = &mut self.creates;
        columns.run.push(run.0);
        columns.base.push(base_seq as i64);
        columns.created_seq.push(created_seq as i64);
        columns.parent.push(link.map(|link| link.parent.0));
        columns.linked_seq.push(link.map(|link| link.seq as i64));
        columns.linked_at.push(link.map(|link| Time(link.at)));
        columns.parent_is_new.push(parent_is_new);
        columns.id.push(document.id.0);
        columns.type_key.push(document.kind.as_str());
        columns.props.push(json(&document.props)?);
        columns.created.push(Time(document.created_at));
        columns.updated.push(Time(document.updated_at));
        let (path, title, body) = match document {
            Cow::Borrowed(d) => (clean(&d.path), clean(&d.title), clean(&d.body)),
            Cow::Owned(d) => (cleaned(d.path).into(), cleaned(d.title).into(), cleaned(d.body).into()),
        };
        columns.path.push(path);
        columns.title.push(title);
        columns.body.push(body);
        Ok(())
    }
}

/// [`clean`] for owned text, without a copy if there is nothing to do.
pub(super) fn cleaned(text: String) -> String {
    match clean(&text) {
        Cow::Borrowed(_) => text,
        Cow::Owned(cleaned) => cleaned,
    }
}
