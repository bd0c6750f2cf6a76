//! Members of projects, and what they may read.

use tree_agent_contract::limits::PROJECT_MEMBERS;
use tree_agent_contract::{MemberRole, RunContext, Scope};
use tree_agent_store::{
    Member, MemberChange, NewProject, Project, ProjectQuery, Reader, RunFilter, StoreError,
};

use crate::documents::{new_project, project_id};
use crate::fixture::{Fixture, T0, new_run};
use crate::run_lists::found;

fn member(user: &str, role: MemberRole) -> Member {
    Member { user_id: user.into(), role, created_at: T0 }
}

async fn owned(f: &Fixture, n: u128, user: &str, request: &str) -> Project {
    let (user_id, request_id) = (user.to_owned(), request.to_owned());
    let new = NewProject { user_id, request_id, ..new_project(n, &format!("Project {n}")) };
    f.store.create_project(new).await.unwrap()
}

pub async fn whoever_creates_a_project_owns_it_and_the_last_owner_stays(f: Fixture) {
    use MemberRole::{Editor, Owner, Reader};
    let project = owned(&f, 1, "ann", "r").await.id;
    let of = async |user: &str| f.store.memberships(user).await.unwrap().get(&project).copied();
    assert_eq!((of("ann").await, of("bob").await, of("").await), (Some(Owner), None, None));
    let set = async |user: &str, role, keep| f.store.set_member(project, member(user, role), keep).await;
    let removed = async |user: &str, keep| f.store.remove_member(project, user, keep).await.unwrap();
    for role in [Editor, Reader] {
        assert_eq!(set("ann", role, true).await.unwrap(), MemberChange::LastOwner);
    }
    assert_eq!(removed("ann", true).await, MemberChange::LastOwner);
    assert_eq!(set("bob", Reader, true).await.unwrap(), MemberChange::Done);
    assert_eq!(set("bob", Owner, true).await.unwrap(), MemberChange::Done);
    assert_eq!(set("ann", Editor, true).await.unwrap(), MemberChange::Done);
    // A request that is repeated after all this gives nothing back.
    owned(&f, 9, "ann", "r").await;
    let page = f.store.members(project, "", 10).await.unwrap();
    assert_eq!(page.items, [member("ann", Editor), member("bob", Owner)]);
    let page = f.store.members(project, "", 1).await.unwrap();
    assert_eq!((page.items.len(), page.more), (1, true));
    assert_eq!(f.store.members(project, "ann", 1).await.unwrap().items, [member("bob", Owner)]);
    assert_eq!(removed("nobody", true).await, MemberChange::Done);
    assert_eq!(removed("bob", false).await, MemberChange::Done);
    assert_eq!(of("bob").await, None);
    f.store.delete_project(project, true).await.unwrap();
    assert_eq!(of("ann").await, None);
    assert!(matches!(set("ann", Reader, false).await, Err(StoreError::NotFound { .. })));
    // Without a user there is no owner.
    let nobodys = owned(&f, 2, "", "").await.id;
    assert!(f.store.members(nobodys, "", 10).await.unwrap().items.is_empty());
}

pub async fn of_two_owners_who_remove_each_other_one_stays(f: Fixture) {
    let project = owned(&f, 1, "ann", "").await.id;
    for round in 0..20 {
        f.store.set_member(project, member("bob", MemberRole::Owner), true).await.unwrap();
        f.store.set_member(project, member("ann", MemberRole::Owner), false).await.unwrap();
        let (one, two) = tokio::join!(
            f.store.remove_member(project, "ann", true),
            f.store.remove_member(project, "bob", true)
        );
        let mut changes = [one.unwrap(), two.unwrap()];
        changes.sort_by_key(|change| *change == MemberChange::Done);
        assert_eq!(changes, [MemberChange::LastOwner, MemberChange::Done], "round {round}");
    }
}

pub async fn a_project_has_so_many_members(f: Fixture) {
    let project = owned(&f, 1, "ann", "").await.id;
    for n in 1..PROJECT_MEMBERS {
        f.store.set_member(project, member(&format!("u{n}"), MemberRole::Reader), true).await.unwrap();
    }
    let more = f.store.set_member(project, member("zoe", MemberRole::Reader), true).await.unwrap();
    assert_eq!(more, MemberChange::Full);
    let change = f.store.set_member(project, member("u1", MemberRole::Editor), true).await.unwrap();
    assert_eq!(change, MemberChange::Done, "who is one already may get another role");
}

pub async fn lists_hold_what_a_user_may_read(f: Fixture) {
    for n in 1..=3 {
        owned(&f, n, "ann", "").await;
    }
    let contexts = [
        RunContext::default(),
        RunContext::project(project_id(1)),
        RunContext { scope: Scope::MultiProject, project_ids: vec![project_id(1), project_id(2)] },
        RunContext { scope: Scope::MultiProject, project_ids: vec![project_id(2), project_id(3)] },
    ];
    for (n, context) in (1..).zip(contexts) {
        let mut run = new_run(n);
        run.spec.context = context;
        run.spec.user_id = if n == 4 { "bob".into() } else { "ann".into() };
        f.store.create_run(run).await.unwrap();
    }
    let read = async |user: &str, projects: &[u128]| {
        let project_ids = projects.iter().map(|n| project_id(*n)).collect();
        let reader = Reader { user_id: user.into(), project_ids };
        let mut found = found(&f, RunFilter { readable_by: Some(reader), ..RunFilter::default() }).await;
        found.sort_unstable();
        found
    };
    assert_eq!(read("eve", &[]).await, [0_u128; 0]);
    assert_eq!(read("ann", &[]).await, [1, 2, 3]);
    assert_eq!(read("bob", &[]).await, [4]);
    assert_eq!(read("eve", &[1]).await, [2]);
    assert_eq!(read("eve", &[2]).await, [0_u128; 0]);
    assert_eq!(read("eve", &[1, 2]).await, [2, 3]);
    assert_eq!(read("eve", &[1, 2, 3]).await, [2, 3, 4], "a run on every project is its user's alone");
    let named = async |among: Option<&[u128]>| {
        let among = among.map(|ids| ids.iter().map(|n| project_id(*n)).collect());
        let query = ProjectQuery { among, limit: 10, ..ProjectQuery::default() };
        f.store.list_projects(query).await.unwrap().items.len()
    };
    assert_eq!((named(None).await, named(Some(&[])).await, named(Some(&[1, 3])).await), (3, 0, 2));
}
