//! Every flaw that is put into a world on purpose is found by the check that is meant for it.

use std::collections::BTreeMap;

use tree_agent_simulation::{Flaw, simulate};

/// Seeds to try before a flaw counts as not found.
const PATIENCE: u64 = 1_000;

fn is_found(flaw: Flaw) {
    let mut others = BTreeMap::new();
    for seed in 0..PATIENCE {
        let violations = simulate(seed, Some(flaw)).violations;
        if let Some(found) = violations.iter().find(|text| text.contains(flaw.sign())) {
            eprintln!("{flaw:?} is found by seed {seed}: {found}");
            return;
        }
        others.extend(violations.into_iter().next().map(|text| (seed, text)));
    }
    panic!("{PATIENCE} worlds with {flaw:?} and no check said {:?}, but: {others:#?}", flaw.sign());
}

macro_rules! flaws {
    ($(fn $name:ident: $flaw:ident,)*) => {
        $(#[test] fn $name() { is_found(Flaw::$flaw); })*

        #[test]
        fn every_flaw_has_a_test() {
            assert_eq!(Flaw::ALL, [$(Flaw::$flaw,)*]);
        }
    };
}

flaws! {
    fn a_missing_fence_is_found: NoFence,
    fn a_fence_without_the_head_is_found: NoHeadInFence,
    fn events_taken_for_ones_own_are_found: DedupeBySeq,
    fn a_lost_write_is_found: LostWrite,
    fn documents_written_twice_are_found: DocumentsTwice,
    fn lost_rows_are_found: LostRows,
    fn an_epoch_given_twice_is_found: SameEpoch,
    fn leases_by_the_callers_clock_are_found: CallersClock,
    fn a_lease_without_an_end_is_found: EternalLease,
    fn a_command_that_does_not_wake_its_run_is_found: DeafToCommands,
    fn a_trusted_fan_out_is_found: TrustedFanout,
    fn heads_that_are_compared_too_seldom_are_found: SeldomHeads,
    fn an_answer_that_is_recorded_twice_is_found: MixedUpAnswers,
    fn a_command_that_is_applied_without_its_name_is_found: NamelessCommands,
    fn a_reply_that_changes_is_found: ForgottenReplies,
    fn a_fork_with_later_documents_is_found: ForksOfToday,
}
