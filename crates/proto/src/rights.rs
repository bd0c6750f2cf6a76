//! What each method of the public API asks of whoever calls it. A method without a row does not compile.

/// What a method does with the runs, projects and documents that its request names.
///
/// What a caller may not even read looks to them as if it did not exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// It names none, and shows nothing of anybody.
    #[default]
    Open,
    /// It reads them, and lists hold only what the caller may read. A run may be read by its user, by whoever is a
    /// member of all projects of its context, and by administrators.
    Read,
    /// It writes: runs of the caller only, and documents of projects whose editor the caller is.
    Write,
    /// It changes projects themselves, whose owner the caller must be.
    Own,
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// The path of the method.
    pub path: &'static str,
    /// What it does.
    pub access: Access,
    /// Role services may call it for a live run.
    pub roles: bool,
}

/// Every method of the public API.
pub const METHODS: &[&str] = include!(concat!(env!("OUT_DIR"), "/methods.rs"));

macro_rules! rules {
    ($($service:literal { $($method:literal $access:ident $($roles:ident)?,)* })*) => {
        /// The table.
        pub const RULES: &[Rule] = &[$($(Rule {
            path: concat!("/treeagent.v1.", $service, "/", $method),
            access: Access::$access,
            roles: rules!(@roles $($roles)?),
        },)*)*];
    };
    (@roles) => { false };
    (@roles roles) => { true };
}

rules! {
    "RunService" {
        "CreateRun" Read,
        "EstimateRun" Read,
        "GetRun" Read,
        "GetResult" Read,
        "ListRuns" Read,
        "WatchRuns" Read,
        "WatchRun" Read,
        "ListEvents" Read,
        "GetGraph" Read,
        "GetNode" Read,
        "ListCitations" Read,
        "WaitRun" Read,
        "DiffRuns" Read,
        "ForkRun" Read,
        "PauseRun" Write,
        "ResumeRun" Write,
        "GuideNode" Write,
        "StopNode" Write,
        "RetryNode" Write,
        "EditPlan" Write,
        "SetBudget" Write,
        "CancelRun" Write,
        "DeleteRun" Write,
    }
    "DocumentService" {
        "GetDocument" Read roles,
        "ListDocuments" Read roles,
        "SearchDocuments" Read roles,
        "CreateDocument" Write roles,
        "WatchDocument" Read,
        "ListDocumentVersions" Read,
        "ImportFile" Write,
        "DeleteDocument" Write,
    }
    "ProjectService" {
        "GetProject" Read roles,
        "ListProjects" Read roles,
        "CreateProject" Open,
        "UpdateProject" Own,
        "DeleteProject" Own,
        "ListMembers" Read,
        "SetMember" Own,
        "RemoveMember" Own,
    }
    "ModelService" {
        "ListModels" Open,
    }
    "ServerService" {
        "GetServerInfo" Open,
        "GetStatus" Open,
    }
}

/// The row of the method with this path; none if the public API has no such method.
pub fn rule(path: &str) -> Option<&'static Rule> {
    RULES.iter().find(|rule| rule.path == path)
}

const fn same(a: &[u8], b: &[u8]) -> bool {
    let mut i = 0;
    while i < a.len() && i < b.len() && a[i] == b[i] {
        i += 1;
    }
    i == a.len() && i == b.len()
}

const _: () = {
    assert!(RULES.len() == METHODS.len(), "a method of the API has no row here, or a row has no method");
    let mut i = 0;
    while i < METHODS.len() {
        let mut row = 0;
        while row < RULES.len() && !same(RULES[row].path.as_bytes(), METHODS[i].as_bytes()) {
            row += 1;
        }
        assert!(row < RULES.len(), "a method of the API has no row here");
        i += 1;
    }
};
