//! Every size limit of the public contract, in one place. Exceeding one is an error that names the field.

/// Bytes of an objective.
pub const OBJECTIVE_BYTES: usize = 16 * 1024;
/// Bytes of a title (node, step, document, project).
pub const TITLE_BYTES: usize = 1024;
/// Bytes of a document's path within its project.
pub const PATH_BYTES: usize = 1024;
/// Bytes of a reason, summary, criterion, error or other short text.
pub const TEXT_BYTES: usize = 16 * 1024;
/// Bytes of a step id.
pub const STEP_ID_BYTES: usize = 128;
/// Success criteria a step may have.
pub const CRITERIA: usize = 32;
/// Assumptions that a planner may name for a review, and as many things that it leaves out.
pub const PREMISES: usize = 16;
/// Milliseconds after which a review goes on by itself at the latest: 30 days.
pub const REVIEW_MS: u64 = 30 * 24 * 60 * 60 * 1_000;
/// Bands that a planner may return (the run's own, smaller limit clamps).
pub const BANDS: usize = 64;
/// Steps that a planner may return in one band (the run's own, smaller limit clamps).
pub const STEPS_PER_BAND: usize = 256;
/// Artifacts in one role output.
pub const ARTIFACTS: usize = 64;
/// Documents of which one prompt holds text.
pub const PROMPT_DOCUMENTS: usize = 256;
/// Findings, and gaps, of an aggregation; each has at most [`CLAIM_BYTES`].
pub const FINDINGS: usize = 64;
/// Bytes of an artifact's label.
pub const LABEL_BYTES: usize = 256;
/// Citations of one artifact.
pub const CITATIONS: usize = 128;
/// Milliseconds that a quota of the provider must last for a run to wait for it.
pub const QUOTA_LEAST_MS: u64 = 20_000;
/// Milliseconds for which a run waits at the most for the quota of its provider: a week, and a day.
pub const QUOTA_MS: u64 = 8 * 24 * 60 * 60 * 1_000;
/// Pairs of sources that disagree, in one artifact.
pub const DISAGREEMENTS: usize = 8;
/// The claim of a citation, in bytes.
pub const CLAIM_BYTES: usize = 2 * 1024;
/// The quote of a citation, in bytes.
pub const QUOTE_BYTES: usize = 4 * 1024;
/// Criteria and doubts of a verification, each.
pub const VERIFIED: usize = 32;
/// Visible characters of a quote or a claim: with fewer it fits too many passages.
pub const QUOTE_CHARS: usize = 8;
/// Bytes of a document's body, also of one scratchpad.
pub const DOCUMENT_BYTES: usize = 1024 * 1024;
/// Bytes of a kept prompt, with what the model thought and answered. A longer one is cut in its middle.
pub const KEPT_PROMPT_BYTES: usize = 64 * 1024;
/// Bytes of the name of an import, and of the fingerprint of an imported file.
pub const IMPORT_BYTES: usize = 128;
/// Bytes of what an import says of a file that is not in the text.
pub const LEFT_OUT_BYTES: usize = 2 * 1024;
/// Bytes of an artifact's JSON payload, tool arguments or any other JSON in an event.
pub const JSON_BYTES: usize = 256 * 1024;
/// Bytes of a scratchpad's `tailPreview`; longer ones are cut from the front.
pub const TAIL_PREVIEW_BYTES: usize = 512;
/// Bytes of a document's beginning that its event carries.
pub const SNIPPET_BYTES: usize = 600;
/// Decisions about a node that its graph keeps, the latest ones.
pub const NODE_DECISIONS: usize = 16;
/// Bytes of one gRPC message in either direction, except an answer that holds a graph.
pub const MESSAGE_BYTES: usize = 8 * 1024 * 1024;
/// Bytes of a file that a client sends to be converted.
pub const FILE_BYTES: usize = 8 * 1024 * 1024;
/// Bytes of a request to the service of documents. A file of [`FILE_BYTES`] fits, also as base64 in JSON.
pub const DOCUMENT_REQUEST_BYTES: usize = 12 * 1024 * 1024;
/// Bytes of a request to a service of the public API that takes neither documents nor runs.
pub const REQUEST_BYTES: usize = 256 * 1024;
/// Bytes of a request to the service of runs. Four prompts and a schema of [`PROMPT_BYTES`] each fit,
/// also as JSON that escapes every line break and every letter beyond ASCII.
pub const RUN_REQUEST_BYTES: usize = 1024 * 1024;
/// Bytes of an answer that holds a graph: about 300,000 nodes. A node with little text takes 880 bytes.
pub const GRAPH_BYTES: usize = 256 * 1024 * 1024;
/// Rows of a page when the client names no size.
pub const PAGE_DEFAULT: usize = 100;
/// Maximum of rows of a page.
pub const PAGE_MAX: usize = 1_000;
/// Projects that a run's context may name.
pub const CONTEXT_PROJECTS: usize = 32;
/// Members of a project.
pub const PROJECT_MEMBERS: usize = 1_000;
/// Names of tools in one list of a project's rules.
pub const TOOL_NAMES: usize = 256;
/// Maximum of tokens, millionths of a dollar or milliseconds that one model call may report. It is far more than a call
/// can use, and small enough that the sums of a run stay exact wherever they are counted.
pub const USAGE: u64 = 1_000_000_000_000;
/// Bytes of a run's display name.
pub const DISPLAY_NAME_BYTES: usize = 256;
/// Labels of a run, and labels that a filter may name.
pub const RUN_LABELS: usize = 32;
/// Bytes of a label's key.
pub const LABEL_KEY_BYTES: usize = 63;
/// Nodes of an answer with a comparison, when the client does not say.
pub const DIFF_PAGE_DEFAULT: usize = 1_000;
/// Nodes of an answer with a comparison.
pub const DIFF_PAGE_MAX: usize = 10_000;
/// Lines of each text that a comparison looks at.
pub const DIFF_LINES: usize = 5_000;
/// Bytes of each text that a comparison looks at.
pub const DIFF_BYTES: usize = 512 * 1024;
/// Bytes of a label's value.
pub const LABEL_VALUE_BYTES: usize = 128;
/// Topics in one list of a guided search.
pub const SEARCH_CHILDREN: usize = 1_000;
/// Maximum of topics that a guided search researches at the same time.
pub const SEARCH_CONCURRENCY: u64 = 256;
/// Topics of a guided search that carries out a step of a plan.
pub const STEP_SEARCH_NODES: u64 = 10_000;
/// Bytes of a prompt that a user gives with a run, and of the JSON Schema of the frontmatter.
pub const PROMPT_BYTES: usize = 64 * 1024;
/// Levels of the JSON Schema of the frontmatter. As protobuf each level takes up to three messages, of which a decoder
/// accepts a hundred, with those around the schema.
pub const SCHEMA_LEVELS: usize = 24;
/// Messages that one research may add to its conversation.
pub const SESSION_MESSAGES: usize = 16;
/// Bytes of one message of a conversation. Roles shorten what is longer.
pub const SESSION_MESSAGE_BYTES: usize = 32 * 1024;
/// Bytes of the messages that a conversation takes over from those that it continues.
pub const SESSION_FORK_BYTES: usize = 128 * 1024;
/// Bytes of the path that a picker names.
pub const PICK_BYTES: usize = 8 * 1024;
/// Bytes of the name of a branch of homework.
pub const BRANCH_ID_BYTES: usize = 128;
/// Branches about which a roll-up of homework may say something.
pub const BRANCH_NOTES: usize = 256;
/// The latest tasks of a branch of homework of which the planner is told the results.
pub const BRANCH_ENTRIES: usize = 2;
/// Steps of the plan document of homework.
pub const PLAN_ITEMS: usize = 64;
/// Questions that a planner of homework may have, and pieces of remaining work.
pub const HOMEWORK_NOTES: usize = 32;
/// Values of a filter such as `statuses` or `types`.
pub const FILTER_VALUES: usize = 64;
/// Bytes of one piece of guidance.
pub const GUIDANCE_BYTES: usize = 8 * 1024;
/// Pieces of guidance that a role call is told, the latest ones.
pub const GUIDANCE: usize = 16;
/// Commands that one run applies over its life.
pub const COMMANDS: usize = 10_000;
/// Nodes that a preview names.
pub const PREVIEW_NODES: usize = 1_000;
/// Maximum of things that a fork does differently from its beginning on.
pub const FORK_EDITS: usize = 64;
/// Bytes of a `request_id`.
pub const REQUEST_ID_BYTES: usize = 128;
