//! The promises of the ports. Each test runs against a fresh store of both adapters.

#![allow(missing_docs, unreachable_pub)]

mod claims;
mod commands;
mod document_tree;
mod documents;
mod fixture;
mod forks;
mod keys;
mod leases;
mod log;
mod make;
mod members;
mod one_process;
mod operations;
mod passages;
mod projects;
mod run_lists;
mod runs;
mod schema;
mod sessions;
mod tidying;
mod tls;

/// Makes one test per adapter from each `async fn name(fixture: Fixture)`.
macro_rules! contract {
    ($($module:ident::$name:ident),* $(,)?) => {
        mod postgres {$(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$module::$name(super::fixture::Fixture::postgres().await).await;
            }
        )*}
        mod embedded {$(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$module::$name(super::fixture::Fixture::embedded().await).await;
            }
        )*}
    };
}

contract! {
    commands::a_request_id_makes_a_command_idempotent,
    commands::concurrent_requests_with_one_id_send_one_command,
    commands::a_reply_is_written_with_the_events_of_its_command,
    commands::a_refusal_is_written_without_events_by_the_owner_alone,
    commands::the_end_of_a_run_refuses_what_waits,
    commands::a_paused_run_is_claimed_only_for_a_command,
    commands::a_paused_run_that_waits_for_a_review_is_claimed_when_its_time_has_come,
    commands::a_paused_run_that_was_put_aside_is_claimed_when_its_time_has_come,
    document_tree::a_text_that_is_replaced_stays_in_the_history,
    document_tree::a_reader_is_told_where_the_present_text_begins,
    document_tree::documents_of_a_run_form_a_tree,
    document_tree::a_place_that_cannot_be_is_refused_and_nothing_is_written,
    document_tree::documents_are_found_by_their_place_and_their_part_in_homework,
    forks::a_fork_is_one_log_and_copies_nothing,
    forks::a_request_id_makes_a_fork_idempotent,
    forks::a_fork_at_an_event_that_its_parent_did_not_write_is_refused,
    forks::a_fork_reads_documents_as_they_were_and_writes_its_own,
    forks::a_chain_of_a_hundred_forks_reads_as_one_log,
    forks::nodes_of_a_fork_include_those_that_it_shares,
    forks::forks_are_listed_with_their_parent,
    log::appends_and_reads_back_exactly,
    log::a_stale_epoch_or_head_is_fenced_and_writes_nothing,
    log::a_repeated_append_is_appended_once,
    log::a_repeat_from_an_older_epoch_or_with_other_events_is_fenced,
    log::events_must_be_contiguous_and_a_run_may_occur_once,
    log::one_fenced_run_does_not_hold_up_the_others,
    log::of_two_writers_one_wins_each_seq,
    log::reading_pages_by_seq,
    log::a_page_is_bounded_in_bytes,
    log::heads_names_the_runs_that_exist,
    log::an_event_of_an_unknown_type_is_kept,
    log::projection_rows_are_inserted_then_replaced,
    log::nul_characters_do_not_stop_a_log,
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
    runs::what_a_user_has_used_is_counted_over_their_runs,
    runs::the_texts_of_a_search_count_and_are_not_listed,
    runs::concurrent_creations_with_one_request_id_make_one_run,
    runs::nodes_are_listed_with_their_parents,
    run_lists::lists_page_and_filter,
    run_lists::every_filter_finds_what_it_names,
    run_lists::a_deleted_run_is_hidden_with_its_documents,
    run_lists::changes_of_the_list_can_be_followed,
    runs::an_unknown_run_is_not_found,
    runs::commands_wait_until_their_events_are_written,
    runs::the_end_of_a_run_empties_its_inbox_and_closes_it,
    sessions::conversations_are_written_with_their_events_and_read_as_a_chain,
    sessions::a_fork_has_the_conversations_of_the_events_that_it_shares,
    sessions::a_run_is_created_with_its_conversations,
    sessions::a_fenced_writer_writes_no_conversation,
    sessions::a_parent_that_is_missing_or_a_circle_ends_the_chain,
    documents::putting_replaces_and_keeps_paths_unique,
    documents::a_deleted_source_is_gone_and_an_import_deletes_only_its_own,
    documents::documents_of_appends_grow_and_keep_their_end,
    documents::the_tail_of_a_document_begins_where_it_is_asked_for,
    documents::a_document_keeps_every_version_of_itself,
    documents::listing_pages_by_path_and_filters,
    documents::a_source_is_read_in_pieces,
    passages::words_that_look_the_same_are_found,
    passages::candidates_come_by_the_weight_of_what_they_hold,
    passages::a_search_stays_within_its_context,
    passages::odd_queries_and_odd_texts_are_no_errors,
    passages::passages_follow_their_document,
    passages::rows_far_down_a_table_come_with_its_head,
    passages::titles_that_an_earlier_version_found_in_comments_are_mended,
    passages::vectors_are_kept_as_long_as_a_passage_has_their_text,
    passages::a_text_gets_its_vector_from_one_gateway,
    passages::vectors_in_memory_are_those_that_are_stored,
    passages::passages_that_are_not_what_a_body_says_are_found_and_mended,
    documents::projects_have_unique_names_and_pages,
    documents::a_request_id_belongs_to_the_user_who_sent_it,
    documents::concurrent_requests_with_one_id_make_one_project,
    projects::a_tool_replaces_what_tools_wrote_and_nothing_else,
    projects::a_change_leaves_the_rest_as_it_is,
    projects::every_change_of_a_project_or_its_documents_has_a_revision_of_its_own,
    projects::a_new_name_is_unique_and_the_old_one_is_free,
    projects::a_deleted_project_takes_its_documents_along,
    projects::a_project_that_live_runs_name_is_kept_unless_forced,
    projects::documents_of_projects_that_have_changed_are_named_and_counted,
    members::whoever_creates_a_project_owns_it_and_the_last_owner_stays,
    members::of_two_owners_who_remove_each_other_one_stays,
    members::a_project_has_so_many_members,
    members::lists_hold_what_a_user_may_read,
    operations::the_state_of_a_cluster_is_that_of_its_leases_and_runs,
    operations::what_is_stored_can_be_seen_cell_by_cell,
    operations::stored_events_are_not_interpreted,
    operations::run_ids_page_upwards,
    operations::the_chunks_of_a_fork_are_paged,
    operations::a_projection_is_replaced_while_the_head_stands,
}
