//! The contract: how a Kubernetes API server behaves, as far as the product and the simulation's users depend on it.
//!
//! Each case is one function that asks any server and judges its answers. The same cases run on the simulated server
//! (`tests/contract.rs`) and on the real one (`tests/real/contract.rs`): where the two differ, the simulation is wrong.

pub mod ground;
pub mod objects;

/// Hands the table of all cases, by group, to another macro.
macro_rules! cases {
    ($with:ident) => {
        $with! {
            reading {
                get_answers_what_create_answered
                what_is_not_there_is_not_found
                not_found_names_the_group_too
                an_unknown_resource_is_not_found
                a_list_is_in_the_order_of_the_names
                a_list_is_as_new_as_the_last_write
                an_empty_list_has_a_revision_and_items
                a_list_spans_all_namespaces
                a_custom_list_names_the_kind_of_its_items
                pages_follow_one_another_at_one_revision
                later_pages_are_as_old_as_the_first
                pages_of_a_selection_do_not_count_what_is_left
                a_broken_continue_token_is_refused
                label_selectors_select
                field_selectors_select
                an_unknown_field_label_is_refused
                metadata_alone_can_be_asked_for
                a_table_has_the_columns_of_the_resource
                discovery_names_what_is_served
            }
            writing {
                create_sets_what_is_the_servers
                a_name_is_given_once
                a_name_can_be_made_up_by_the_server
                an_object_needs_a_name
                a_name_is_a_dns_name
                what_is_created_has_no_revision_yet
                an_object_goes_where_its_path_says
                a_namespace_must_be_there
                a_namespace_that_ends_takes_nothing_in
                a_body_must_be_json_of_a_known_kind
                a_verb_that_is_not_there_is_refused
                replace_takes_the_revision_that_was_read
                replace_of_an_older_revision_conflicts
                replace_without_a_revision_wins_where_that_is_allowed
                replace_of_another_incarnation_conflicts
                replace_makes_nothing_new
                replace_goes_by_the_name_in_the_path
                a_write_that_changes_nothing_is_no_write
                generation_counts_changes_of_the_specification
                a_deployment_has_generations_and_a_scale
                a_pod_is_given_its_defaults
                a_pod_is_bound_once
                nobody_ends_an_object_by_writing_a_time
            }
            patching {
                merge_sets_adds_and_removes
                merge_replaces_lists_whole
                merge_with_an_older_revision_conflicts
                a_fault_is_given_a_finalizer_by_merge
                json_patch_tests_and_changes
                json_patch_whose_test_fails_changes_nothing
                json_patch_of_what_is_not_there_is_refused
                a_node_is_cordoned_by_the_product
                strategic_merge_keeps_conditions_by_type
                strategic_merge_replaces_taints
                strategic_merge_adds_to_finalizers
                strategic_merge_with_an_older_revision_conflicts
                strategic_merge_is_not_for_custom_resources
                an_unknown_kind_of_patch_is_refused
                a_patch_needs_an_object
                apply_creates_and_changes
                apply_needs_a_manager
                apply_of_a_status_writes_the_status_alone
                apply_is_tied_to_the_incarnation_and_the_revision
                apply_merges_conditions_by_type
            }
            status {
                a_new_object_has_no_status_of_its_makers
                replacing_the_status_leaves_the_rest
                replacing_an_older_status_conflicts
                the_product_writes_a_status_once_per_revision
                the_main_resource_leaves_the_status
                a_status_patch_leaves_the_specification
                not_everything_has_a_status
                a_status_is_checked_too
                a_status_is_given_its_defaults
            }
            validating {
                good_objects_are_taken
                defaults_are_filled_in
                unknown_fields_are_dropped_unless_strictness_is_asked_for
                what_is_required_is_missed
                each_field_is_checked
                the_rules_of_a_policy_are_checked
                groups_of_a_rule_have_names_of_their_own
                a_fault_is_what_it_was
                a_change_is_checked_like_a_new_object
            }
            deleting {
                what_is_deleted_is_gone
                a_uid_is_a_precondition
                a_revision_is_a_precondition
                a_finalizer_holds_an_object
                the_end_of_a_fault_is_a_new_generation
                an_object_that_ends_takes_no_new_finalizer
                a_bound_pod_has_its_grace
                a_grace_can_be_asked_for_and_shortened
                a_grace_can_stand_in_the_query
                a_pod_without_a_node_goes_at_once
                a_finished_pod_goes_at_once
                a_finalizer_holds_a_pod_after_its_grace
                a_pod_whose_grace_runs_outlives_its_finalizers
                a_collection_is_deleted_by_selector
                a_namespace_takes_its_objects_with_it
            }
            garbage {
                what_is_owned_goes_with_its_owner
                one_of_two_owners_is_enough
                an_owner_in_the_foreground_goes_last
                orphans_stay
                an_owner_of_the_same_name_is_another
                an_owned_pod_ends_with_its_grace
            }
            evicting {
                an_evicted_pod_ends_with_its_grace
                an_eviction_can_shorten_the_grace
                a_spent_budget_refuses
                a_budget_that_is_not_counted_yet_asks_to_wait
                an_eviction_spends_the_budget
                two_budgets_on_a_pod_cannot_be_served
                an_eviction_is_of_one_incarnation
                a_budget_is_not_spent_on_another_incarnation
                an_eviction_needs_a_pod
                an_eviction_names_its_pod
                an_eviction_can_be_rehearsed
                a_pod_that_does_not_run_needs_no_budget
                an_ill_pod_goes_where_the_budget_is_met
                an_ill_pod_stays_where_the_budget_is_not_met
                a_budget_without_labels_is_for_every_pod_here
                a_budget_may_select_by_expression
                the_product_understands_each_answer
                a_budget_has_a_generation
            }
            watching {
                changes_come_in_their_order
                a_watch_goes_on_where_another_ended
                a_watch_from_nowhere_begins_with_what_is_there
                a_write_that_changes_nothing_is_no_event
                a_status_is_a_change_too
                what_leaves_a_label_selection_is_deleted_from_it
                a_pod_comes_to_a_nodes_watch_when_it_is_bound
                a_name_can_be_watched_alone
                the_end_of_an_object_is_two_events
                a_pods_grace_is_seen
                a_watch_ends_when_its_time_is_up
                bookmarks_tell_how_far_a_watch_has_come
                a_history_that_is_gone_is_said_so
                kube_lists_and_then_follows
                a_reflector_holds_what_the_server_holds
            }
            leases_and_events {
                a_lease_keeps_its_microseconds
                one_of_two_candidates_wins
                a_lease_is_not_replaced_blindly
                a_lease_that_is_gone_is_not_renewed
                a_lease_lasts_for_some_time
                the_product_takes_and_returns_a_lease
                an_event_is_one_in_both_groups
                an_event_says_who_did_what
                an_event_is_where_its_object_is
                a_series_is_patched_while_the_event_lasts
                kube_publishes_an_event
            }
            rehearsing {
                a_rehearsed_create_makes_nothing
                a_rehearsed_change_changes_nothing
                a_rehearsed_delete_deletes_nothing
                a_rehearsal_is_checked
            }
        }
    };
}

macro_rules! declare {
    ($($group:ident { $($case:ident)* })*) => {
        $(pub mod $group;)*
    };
}

cases!(declare);
