// Handlers of the route table in api.c, by the file that has them.
#pragma once

#include "http/router.h"

// auth.c
route_fn api_auth_sign_in, api_auth_list, api_auth_sign_out, api_auth_link, api_auth_exchange,
	api_auth_ticket;

// ui.c
route_fn api_ui_root, api_ui;

// boxes.c
route_fn api_boxes_create, api_boxes_list, api_boxes_get, api_boxes_ensure, api_boxes_delete,
	api_boxes_change, api_boxes_step, api_boxes_archive;

// budgets.c
route_fn api_budgets_list, api_budgets_get, api_budgets_set, api_budgets_drop;

// cleanup.c
route_fn api_cleanup_run, api_cleanup_look;

// egress.c
route_fn api_egress;

// events.c
route_fn api_events, api_audit, api_audit_check, api_verify;

// doctor.c
route_fn api_doctor, api_nodes;

// health.c
route_fn api_health;

// live.c
route_fn api_live;

// keys.c
route_fn api_keys_make, api_keys_list, api_keys_revoke, api_tenants_list, api_tenants_get,
	api_tenants_set, api_tenants_drop;

// monitor.c
route_fn api_metrics_text, api_metrics, api_history, api_alerts_list, api_alerts_rules,
	api_alerts_acknowledge, api_alerts_silence, api_alerts_unsilence, api_alerts_set_rule,
	api_alerts_test;

// ports.c
route_fn api_ports_expose, api_ports_list, api_ports_unexpose, api_ports_link, api_ports_tcp;

// secrets.c
route_fn api_secrets_list, api_secrets_get, api_secrets_set, api_secrets_drop;

// pools.c
route_fn api_pools_set, api_pools_list, api_pools_get, api_pools_delete;

// volumes.c
route_fn api_volumes_create, api_volumes_list, api_volumes_get, api_volumes_delete;
// registries.c
route_fn api_registries_list, api_registries_get, api_registries_set, api_registries_drop;

// results.c, logs.c
route_fn api_results_artifacts, api_results_artifact, api_results_tar, api_results_diff,
	api_results_logs, api_results_cast;

// stats.c
route_fn api_stats_box, api_stats_host;

// sync.c
route_fn api_sync_get, api_sync_put;

// usage.c
route_fn api_usage;

// snapshots.c
route_fn api_snapshots_make, api_snapshots_fork;

// builds.c
route_fn api_builds_make, api_blobs_put, api_blobs_get;

// templates.c
route_fn api_operations_list, api_operations_get, api_operations_cancel, api_operations_events,
	api_templates_prune;
route_fn api_templates_list, api_templates_get, api_templates_export, api_templates_make,
	api_templates_forget;
