// Handlers of the route table in api.c, by the file that has them.
#pragma once

#include "http/router.h"

// boxes.c
route_fn api_boxes_create, api_boxes_list, api_boxes_get, api_boxes_ensure, api_boxes_delete,
	api_boxes_change, api_boxes_step;

// cleanup.c
route_fn api_cleanup_run, api_cleanup_look;

// egress.c
route_fn api_egress;

// events.c
route_fn api_events, api_audit, api_audit_check, api_verify;

// health.c
route_fn api_health;

// keys.c
route_fn api_keys_make, api_keys_list, api_keys_revoke, api_tenants_list, api_tenants_get,
	api_tenants_set, api_tenants_drop;

// ports.c
route_fn api_ports_expose, api_ports_list, api_ports_unexpose, api_ports_link, api_ports_tcp;

// secrets.c
route_fn api_secrets_list, api_secrets_get, api_secrets_set, api_secrets_drop;

// templates.c
route_fn api_templates_list, api_templates_get, api_templates_make, api_templates_forget;
