//! Verifying and rebuilding, on both stores, with the logs that the web UI and the engine are tested with.

#![allow(missing_docs, unreachable_pub)]

mod archive;
mod fixture;
mod forks;
mod rebuild;
mod verify;

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
    verify::recorded_runs_are_sound,
    verify::a_run_is_sound_after_every_append,
    verify::every_kind_of_wrong_row_is_told,
    verify::a_hole_in_the_log_is_told,
    verify::an_event_of_another_writer_is_told,
    verify::an_event_that_breaks_an_invariant_is_told,
    verify::what_a_newer_version_wrote_is_checked_as_far_as_it_can_be,
    verify::a_missing_document_is_told,
    verify::a_missing_conversation_is_told,
    verify::text_that_is_missing_moved_or_strange_is_told,
    verify::places_that_cannot_be_are_told,
    verify::a_missing_workspace_is_told,
    verify::an_unknown_run_is_an_error,
    forks::a_fork_is_verified_and_rebuilt,
    forks::a_fork_with_work_of_its_own_is_verified_archived_and_restored,
    forks::the_documents_of_a_fork_are_paged,
    forks::an_archived_run_is_not_forked,
    forks::forks_outlive_the_run_that_they_fork,
    forks::forks_outlive_their_origin_whatever_their_clocks_say,
    forks::an_archive_of_a_fork_restores_alone,
    forks::of_forks_alone_the_oldest_has_the_documents,
    archive::runs_come_back_as_they_were,
    archive::what_is_archived_says_so,
    archive::nothing_is_removed_without_its_archive,
    archive::a_pruned_run_comes_back_only_from_its_own_archive,
    archive::a_run_of_the_store_is_not_overwritten,
    archive::an_archive_is_of_the_run_that_it_is_named_for_and_has_nothing_after_its_end,
    archive::events_of_a_newer_version_come_back_byte_for_byte,
    archive::every_step_can_be_repeated,
    archive::labels_and_times_survive_archive_and_restore,
    archive::a_deleted_run_is_pruned_with_its_row_and_restored_hidden,
    archive::only_ended_runs_of_some_age_are_chosen,
    archive::an_ended_month_goes_as_a_whole_and_comes_back,
    rebuild::everything_derived_is_mended,
    rebuild::a_broken_log_is_left_alone,
    rebuild::a_log_of_a_newer_version_is_left_alone,
    rebuild::a_run_that_is_driven_is_rebuilt_beside_it,
}
