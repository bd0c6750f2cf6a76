//! What roles may call.
//!
//! A role acts for one run. It reaches the documents of that run's context and no more: handlers of the methods that
//! roles may call ask [`Gateway::view`](crate::gateway::Gateway::view) what the run may see.

/// Every method of the API, and whether roles may call it. A test compares this with the descriptors, so that a new
/// method needs a rule.
const RULES: &[(&str, bool)] = &[
    ("/treeagent.v1.DocumentService/CreateDocument", true),
    ("/treeagent.v1.DocumentService/DeleteDocument", false),
    ("/treeagent.v1.DocumentService/GetDocument", true),
    ("/treeagent.v1.DocumentService/ListDocumentVersions", false),
    ("/treeagent.v1.DocumentService/ListDocuments", true),
    ("/treeagent.v1.DocumentService/SearchDocuments", true),
    ("/treeagent.v1.DocumentService/WatchDocument", false),
    ("/treeagent.v1.ModelService/ListModels", false),
    ("/treeagent.v1.ProjectService/CreateProject", false),
    ("/treeagent.v1.ProjectService/DeleteProject", false),
    ("/treeagent.v1.ProjectService/GetProject", true),
    ("/treeagent.v1.ProjectService/ListProjects", true),
    ("/treeagent.v1.ProjectService/UpdateProject", false),
    ("/treeagent.v1.RunService/CancelRun", false),
    ("/treeagent.v1.RunService/CreateRun", false),
    ("/treeagent.v1.RunService/DeleteRun", false),
    ("/treeagent.v1.RunService/DiffRuns", false),
    ("/treeagent.v1.RunService/EditPlan", false),
    ("/treeagent.v1.RunService/EstimateRun", false),
    ("/treeagent.v1.RunService/ForkRun", false),
    ("/treeagent.v1.RunService/GetGraph", false),
    ("/treeagent.v1.RunService/GetNode", false),
    ("/treeagent.v1.RunService/GetResult", false),
    ("/treeagent.v1.RunService/GetRun", false),
    ("/treeagent.v1.RunService/GuideNode", false),
    ("/treeagent.v1.RunService/ListCitations", false),
    ("/treeagent.v1.RunService/ListEvents", false),
    ("/treeagent.v1.RunService/ListRuns", false),
    ("/treeagent.v1.RunService/PauseRun", false),
    ("/treeagent.v1.RunService/ResumeRun", false),
    ("/treeagent.v1.RunService/RetryNode", false),
    ("/treeagent.v1.RunService/SetBudget", false),
    ("/treeagent.v1.RunService/StopNode", false),
    ("/treeagent.v1.RunService/WatchRun", false),
    ("/treeagent.v1.RunService/WatchRuns", false),
    ("/treeagent.v1.ServerService/GetServerInfo", false),
];

/// True if roles may call the method at `path`.
pub(super) fn roles_may_call(path: &str) -> bool {
    RULES.iter().any(|(method, allowed)| *method == path && *allowed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::descriptors;

    #[test]
    fn every_method_of_the_api_has_a_rule() {
        let public =
            descriptors::pool().services().filter(|service| service.package_name() == "treeagent.v1");
        let methods = public.flat_map(|service| {
            let name = service.full_name().to_owned();
            service.methods().map(|method| format!("/{name}/{}", method.name())).collect::<Vec<_>>()
        });
        let mut methods: Vec<String> = methods.collect();
        methods.sort();
        assert_eq!(methods, RULES.iter().map(|(method, _)| *method).collect::<Vec<_>>());
    }
}
