//! What the tools of a world answer.

use tree_agent_contract::answers::FOLDER;
use tree_agent_contract::event;
use tree_agent_contract::role::{KeptDocument, RoleUpdate, ToolCallKept};
use tree_agent_engine::{CallKey, Input};

use super::World;

/// A model was asked. Roles may send prompts that nobody asked for.
pub(super) fn used(input_tokens: u64, cost_micros: u64, round: u8) -> RoleUpdate {
    let usage = event::UsageRecorded {
        model: "made up".into(),
        input_tokens,
        output_tokens: 0,
        cached_tokens: 0,
        cache_write_tokens: 0,
        cost_micros,
        duration_ms: 3,
        purpose: String::new(),
        documents: Vec::new(),
        prompt: None,
    };
    RoleUpdate::Usage { usage, prompt: (round == 0).then(|| "# Sent: user\n\nGo.\n".into()) }
}

impl World {
    /// The tool answers, and sometimes writes a document. Some of these are the same.
    pub(super) fn keep(&mut self, key: &CallKey, round: u8) {
        let roll = self.roll();
        if !self.run.is_in_flight(key) || roll > 160 {
            return;
        }
        let result = event::ToolCallResult {
            call_id: format!("t{round}"),
            tool_name: "list_documents".into(),
            ok: true,
            summary: None,
            error: None,
            phase: None,
            completed_at: None,
            document_id: None,
            answer: None,
        };
        let kept = |folder: &str| {
            let path = format!("{folder}/{}.md", roll % 5);
            KeptDocument { path: path.clone(), title: "a note".into(), body: path }
        };
        let document = (roll < 120).then(|| kept("notes"));
        let answer = roll.is_multiple_of(3).then(|| kept(FOLDER));
        self.feed(Input::Update(
            *key,
            match document.is_some() || answer.is_some() {
                true => RoleUpdate::ToolCallKept(Box::new(ToolCallKept { result, document, answer })),
                false => RoleUpdate::ToolCallResult(result),
            },
        ));
    }
}
