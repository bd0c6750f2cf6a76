//! The simulated store passes the same contract tests as the real ones, so a finding of the simulation is not an
//! artefact of its store. Left out are things that the simulated world does not have (search, sources, projects,
//! lists, operators' views) and text that Postgres cannot hold.

macro_rules! contract {
    ($($module:ident::$name:ident),* $(,)?) => {$(
        #[tokio::test(start_paused = true)]
        async fn $name() {
            crate::$module::$name(crate::fixture::Fixture::simulated()).await;
        }
    )*};
}

contract! {
    commands::a_request_id_makes_a_command_idempotent,
    commands::concurrent_requests_with_one_id_send_one_command,
    commands::a_reply_is_written_with_the_events_of_its_command,
    commands::a_refusal_is_written_without_events_by_the_owner_alone,
    commands::the_end_of_a_run_refuses_what_waits,
    commands::a_paused_run_is_claimed_only_for_a_command,
    commands::a_paused_run_that_waits_for_a_review_is_claimed_when_its_time_has_come,
    document_tree::a_text_that_is_replaced_stays_in_the_history,
    document_tree::a_reader_is_told_where_the_present_text_begins,
    document_tree::documents_of_a_run_form_a_tree,
    document_tree::a_place_that_cannot_be_is_refused_and_nothing_is_written,
    forks::a_fork_is_one_log_and_copies_nothing,
    forks::a_request_id_makes_a_fork_idempotent,
    forks::a_fork_at_an_event_that_its_parent_did_not_write_is_refused,
    forks::a_fork_reads_documents_as_they_were_and_writes_its_own,
    forks::a_chain_of_a_hundred_forks_reads_as_one_log,
    forks::nodes_of_a_fork_include_those_that_it_shares,
    log::appends_and_reads_back_exactly,
    log::a_stale_epoch_or_head_is_fenced_and_writes_nothing,
    log::a_repeated_append_is_appended_once,
    log::a_repeat_from_an_older_epoch_or_with_other_events_is_fenced,
    log::events_must_be_contiguous_and_a_run_may_occur_once,
    log::one_fenced_run_does_not_hold_up_the_others,
    log::of_two_writers_one_wins_each_seq,
    log::reading_pages_by_seq,
    log::heads_names_the_runs_that_exist,
    log::projection_rows_are_inserted_then_replaced,
    leases::claims_are_exclusive_and_oldest_first,
    leases::an_expired_lease_can_be_claimed_and_fences_its_holder,
    leases::a_renewal_keeps_every_run_of_its_driver,
    leases::a_released_run_is_free_at_once,
    leases::a_term_names_what_is_owned_and_older_claims_take_nothing,
    leases::a_lease_that_had_ended_claims_nothing_and_is_told,
    leases::after_an_outage_nobody_is_robbed,
    leases::renewals_tell_what_others_have_to_spare_and_claims_say_what_they_take,
    leases::a_run_in_quarantine_waits,
    leases::failures_are_counted_for_all_drivers_until_there_is_progress,
    leases::a_run_whose_drivers_vanish_without_progress_waits,
    leases::final_runs_and_paused_ones_are_not_claimed,
    leases::a_command_takes_its_run_out_of_quarantine_once,
    leases::a_command_is_heard_although_drivers_vanish,
    runs::creating_writes_the_run_with_its_events,
    runs::a_request_id_makes_creation_idempotent,
    runs::concurrent_creations_with_one_request_id_make_one_run,
    runs::an_unknown_run_is_not_found,
    runs::commands_wait_until_their_events_are_written,
    runs::the_end_of_a_run_empties_its_inbox_and_closes_it,
    runs::nodes_are_listed_with_their_parents,
    run_lists::a_deleted_run_is_hidden_with_its_documents,
    documents::documents_of_appends_grow_and_keep_their_end,
    documents::the_tail_of_a_document_begins_where_it_is_asked_for,
}
