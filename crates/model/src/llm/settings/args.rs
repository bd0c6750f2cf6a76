//! The arguments of the language models.

use std::path::PathBuf;

/// Settings of the language models. Keys are read from the environment only, where no process list shows them.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Language models")]
pub struct LlmArgs {
    /// The model for small work (executors), such as openai:gpt-4.1-mini.
    #[arg(
        long,
        env = "TREE_AGENT_MODEL_FAST",
        value_name = "PROVIDER:MODEL",
        default_value = "",
        hide_default_value = true
    )]
    pub model_fast: String,
    /// The model for planners and aggregators, such as anthropic:claude-sonnet-4-5.
    #[arg(
        long,
        env = "TREE_AGENT_MODEL_BALANCED",
        value_name = "PROVIDER:MODEL",
        default_value = "",
        hide_default_value = true
    )]
    pub model_balanced: String,
    /// The model for the planner of the root, such as gemini:gemini-2.5-pro.
    #[arg(
        long,
        env = "TREE_AGENT_MODEL_POWERFUL",
        value_name = "PROVIDER:MODEL",
        default_value = "",
        hide_default_value = true
    )]
    pub model_powerful: String,
    /// The model to use when another one is unavailable.
    #[arg(
        long,
        env = "TREE_AGENT_MODEL_FALLBACK",
        value_name = "PROVIDER:MODEL",
        default_value = "",
        hide_default_value = true
    )]
    pub model_fallback: String,
    /// Further models that runs may name; provider:* offers every model of a provider.
    #[arg(
        long,
        env = "TREE_AGENT_MODELS",
        value_name = "PROVIDER:MODEL,…",
        default_value = "",
        hide_default_value = true
    )]
    pub models: String,
    /// Where openai: models are served: any OpenAI-compatible server, such as http://127.0.0.1:11434/v1.
    #[arg(
        long,
        env = "TREE_AGENT_MODEL_BASE_URL",
        value_name = "URL",
        default_value = "",
        hide_default_value = true
    )]
    pub model_base_url: String,
    /// Where anthropic: models are served, when not by Anthropic.
    #[arg(
        long,
        env = "ANTHROPIC_BASE_URL",
        value_name = "URL",
        default_value = "",
        hide_default_value = true
    )]
    pub anthropic_base_url: String,
    /// Where gemini: models are served, when not by Google.
    #[arg(
        long,
        env = "GOOGLE_GEMINI_BASE_URL",
        value_name = "URL",
        default_value = "",
        hide_default_value = true
    )]
    pub gemini_base_url: String,
    /// A JSON file that extends the tables of models and prices.
    #[arg(long, env = "TREE_AGENT_MODEL_TABLE", value_name = "FILE")]
    pub model_table: Option<PathBuf>,
    /// Tokens of a prompt: one number, or planner=N,executor=N,aggregator=N [default: by the table of models]
    #[arg(
        long,
        env = "TREE_AGENT_MODEL_CONTEXT_TOKENS",
        value_name = "N",
        default_value = "",
        hide_default_value = true
    )]
    pub model_context_tokens: String,
    /// Maximum of tokens in an answer, reasoning not included [default: by the table of models]
    #[arg(
        long,
        env = "TREE_AGENT_MODEL_MAX_OUTPUT_TOKENS",
        value_name = "N",
        default_value = "",
        hide_default_value = true
    )]
    pub model_max_output_tokens: String,
    /// How much models reason: none, minimal, low, medium, high, xhigh or max, or
    /// fast=low,balanced=medium,powerful=high; models that cannot reason ignore it [default: as the provider chooses]
    #[arg(
        long,
        env = "TREE_AGENT_MODEL_EFFORT",
        value_name = "EFFORT",
        default_value = "",
        hide_default_value = true
    )]
    pub model_effort: String,
    /// Rounds of tool calls in one executor call; 0 offers no tools.
    #[arg(long, env = "TREE_AGENT_MODEL_TOOL_ROUNDS", value_name = "N", default_value = "8")]
    pub model_tool_rounds: String,
    /// Parallel requests to one provider.
    #[arg(long, env = "TREE_AGENT_MODEL_CONCURRENCY", value_name = "N", default_value = "8")]
    pub model_concurrency: String,
    /// Requests in a minute to one provider: one number, or openai=N,anthropic=N,gemini=N [default: no limit]
    #[arg(
        long,
        env = "TREE_AGENT_MODEL_REQUESTS_PER_MINUTE",
        value_name = "N",
        default_value = "",
        hide_default_value = true
    )]
    pub model_requests_per_minute: String,
    /// Tokens in a minute, of prompts and answers, at one provider: one number, or openai=N,anthropic=N,gemini=N
    /// [default: no limit]
    #[arg(
        long,
        env = "TREE_AGENT_MODEL_TOKENS_PER_MINUTE",
        value_name = "N",
        default_value = "",
        hide_default_value = true
    )]
    pub model_tokens_per_minute: String,
    /// Seconds of silence after which a request counts as stalled.
    #[arg(long, env = "TREE_AGENT_MODEL_STALL_SECONDS", value_name = "SECONDS", default_value = "90")]
    pub model_stall_seconds: String,
    /// Attempts before the failure of a request counts.
    #[arg(long, env = "TREE_AGENT_MODEL_TRIES", value_name = "N", default_value = "4")]
    pub model_tries: String,
    /// Milliseconds before the second attempt; doubled for each further one, with jitter.
    #[arg(long, env = "TREE_AGENT_MODEL_BACKOFF_MS", value_name = "MS", default_value = "500")]
    pub model_backoff_ms: String,
    /// Failures in a row after which the circuit of a model opens.
    #[arg(long, env = "TREE_AGENT_MODEL_CIRCUIT_FAILURES", value_name = "N", default_value = "5")]
    pub model_circuit_failures: String,
    /// Seconds for which the circuit stays open.
    #[arg(long, env = "TREE_AGENT_MODEL_CIRCUIT_SECONDS", value_name = "SECONDS", default_value = "30")]
    pub model_circuit_seconds: String,
}

impl Default for LlmArgs {
    /// The settings when nothing is set.
    fn default() -> Self {
        let unset = String::new;
        Self {
            model_fast: unset(),
            model_balanced: unset(),
            model_powerful: unset(),
            model_fallback: unset(),
            models: unset(),
            model_base_url: unset(),
            anthropic_base_url: unset(),
            gemini_base_url: unset(),
            model_table: None,
            model_context_tokens: unset(),
            model_max_output_tokens: unset(),
            model_effort: unset(),
            model_tool_rounds: "8".into(),
            model_concurrency: "8".into(),
            model_requests_per_minute: unset(),
            model_tokens_per_minute: unset(),
            model_stall_seconds: "90".into(),
            model_tries: "4".into(),
            model_backoff_ms: "500".into(),
            model_circuit_failures: "5".into(),
            model_circuit_seconds: "30".into(),
        }
    }
}
