//! What is left of the run's budgets holds within a call, too.

use tree_agent_contract::BudgetLeft;
use tree_agent_contract::role::RoleErrorKind;

use crate::provider::{Answer, Provider, text};
use crate::support::*;

#[tokio::test]
async fn no_repair_is_made_when_the_tokens_are_used_up() {
    let provider = Provider::always(Answer::Text("no".into(), "stop")).await;
    let mut service = Service::new(&served_by(&provider));
    service.allowance.tokens = Some(1_500);
    let outcome = service.plan(&plan_input("Compare")).await;
    // 1,050 tokens each: the second request begins within the allowance, the third would not.
    assert_eq!(provider.asked().len(), 2);
    assert_eq!(outcome.error().kind, RoleErrorKind::Rejected);
    assert!(outcome.error().message.contains("maxTokens"), "{}", outcome.error());
}

#[tokio::test]
async fn tools_are_given_up_for_the_sake_of_an_answer() {
    let call = || Answer::Tools("", vec![("c", "list_documents", "{}".to_owned())]);
    let provider = Provider::new(vec![call(), text(&executed())]).await;
    let mut service = Service::new(&served_by(&provider));
    service.allowance.tokens = Some(1_000);
    service.execute(&execute_input("Tides?")).await.output();
    assert_eq!(provider.asked()[1].body["tool_choice"], "none");
}

#[tokio::test]
async fn a_budget_that_is_nearly_used_up_is_told() {
    let provider = Provider::new(vec![text(&direct())]).await;
    let mut input = plan_input("Compare");
    input.call.finish = Some(BudgetLeft { budget: "maxTokens".into(), limit: 1_000, left: 150 });
    Service::new(&served_by(&provider)).plan(&input).await.output();
    let said = provider.asked()[0].last();
    assert!(
        said.contains("A budget of the run is nearly used up; what is left: 150 of 1000 (maxTokens)"),
        "{said}"
    );
}
