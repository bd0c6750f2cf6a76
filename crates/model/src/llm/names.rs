//! Names of models as the client library is told them.
//!
//! The library takes a name apart: what stands before `::` is a namespace to it, and a last word such as `-high` is an
//! effort. What it would ask for then has another name than the one that was checked, offered and priced. So the
//! library gets a name that it leaves alone, and the body of the request holds the real one. Gemini's name is part of
//! the address, which no body corrects: there the contract refuses such names.

use tree_agent_contract::model::ends_in_effort;

/// The name for the library. It begins like `model`, because the library tells families of models by that.
pub(super) fn for_library(model: &str) -> String {
    let mut name = model.to_owned();
    // Three colons leave two.
    while name.contains("::") {
        name = name.replace("::", ":");
    }
    if ends_in_effort(&name) {
        name.push_str("-as-named");
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_leaves_the_name_alone() {
        for (model, told) in [
            ("gpt-5", "gpt-5"),
            ("gpt-5-high", "gpt-5-high-as-named"),
            ("qwen3-max", "qwen3-max-as-named"),
            ("x::gpt-4.1", "x:gpt-4.1"),
            (":::gpt-4.1-low", ":gpt-4.1-low-as-named"),
            ("::::::a", ":a"),
        ] {
            assert_eq!(for_library(model), told);
            assert!(genai::chat::ReasoningEffort::from_model_name(told).0.is_none());
        }
    }
}
