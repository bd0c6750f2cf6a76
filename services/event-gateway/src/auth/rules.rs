//! What roles may call.
//!
//! A role acts for one run. It reaches the documents of that run's context and no more: handlers of these methods ask
//! [`Gateway::view`](crate::gateway::Gateway::view) what the run may see.

/// The methods of the API that roles may call.
const METHODS: [&str; 6] = [
    "/treeagent.v1.DocumentService/CreateDocument",
    "/treeagent.v1.DocumentService/GetDocument",
    "/treeagent.v1.DocumentService/ListDocuments",
    "/treeagent.v1.DocumentService/SearchDocuments",
    "/treeagent.v1.ProjectService/GetProject",
    "/treeagent.v1.ProjectService/ListProjects",
];

/// True if roles may call the method at `path`.
pub(super) fn roles_may_call(path: &str) -> bool {
    METHODS.contains(&path)
}
