// The route table of the native API under /v1. Rows match in order. Authentication, audit and
// idempotency come before the handler (gateway/). The last column is shown by the API's
// documentation.
#include "api/api.h"

#include "api/dev.h"
#include "api/events.h"
#include "api/handlers.h"
#include "api/sessions.h"

#define BOX "/v1/sandboxes/{id}"
#define SESSION "/v1/agent-sessions/{id}"

// clang-format off
const struct route api_routes[] = {
	{"GET",    "/v1/health",                 api_health,             ROUTE_OPEN,    "health of cove; with a key in detail"},
	{"POST",   "/v1/sandboxes",              api_boxes_create,       ROUTE_AUDITED, "make a sandbox"},
	{"GET",    "/v1/sandboxes",              api_boxes_list,         0,             "list sandboxes by labels, in pages"},
	{"GET",    BOX,                          api_boxes_get,          0,             "get a sandbox by id, short id or name"},
	{"PUT",    "/v1/sandboxes/{name}",       api_boxes_ensure,       ROUTE_AUDITED, "get the sandbox of that name, or make it"},
	{"PATCH",  BOX,                          api_boxes_change,       ROUTE_AUDITED, "change labels, environment, network and retention of a sandbox"},
	{"DELETE", BOX,                          api_boxes_delete,       ROUTE_AUDITED, "delete a sandbox; 204 when it is verified gone"},
	{"POST",   BOX "/pause",                 api_boxes_step,         ROUTE_AUDITED, "freeze a sandbox until it is resumed"},
	{"POST",   BOX "/resume",                api_boxes_step,         ROUTE_AUDITED, "resume a paused sandbox"},
	{"POST",   BOX "/stop",                  api_boxes_step,         ROUTE_AUDITED, "stop a sandbox: end its processes, keep its files"},
	{"POST",   BOX "/start",                 api_boxes_step,         ROUTE_AUDITED, "start a stopped sandbox on its files"},
	{"POST",   BOX "/ports",                 api_ports_expose,       ROUTE_AUDITED, "expose a port: make a token and the address of a preview"},
	{"GET",    BOX "/ports",                 api_ports_list,         0,             "list exposed ports and ports with a listener"},
	{"DELETE", BOX "/ports/{port}",          api_ports_unexpose,     ROUTE_AUDITED, "unexpose a port; its token becomes invalid"},
	{"POST",   BOX "/ports/{port}/links",    api_ports_link,         ROUTE_AUDITED, "sign a link to a preview, with an expiry"},
	{"GET",    BOX "/ports/{port}/tcp",      api_ports_tcp,          0,             "WebSocket: a TCP connection to a port, bytes as binary messages"},
	{"GET",    BOX "/egress",                api_egress,             0,             "the egress ledger of a sandbox, as a page or as a stream"},
	{"POST",   "/v1/keys",                   api_keys_make,          ROUTE_AUDITED, "make a key; its secret is shown once"},
	{"GET",    "/v1/keys",                   api_keys_list,          0,             "list keys"},
	{"DELETE", "/v1/keys/{key}",             api_keys_revoke,        ROUTE_AUDITED, "revoke a key at once"},
	{"GET",    "/v1/tenants",                api_tenants_list,       0,             "list tenants with their use"},
	{"GET",    "/v1/tenants/{name}",         api_tenants_get,        0,             "get a tenant"},
	{"PUT",    "/v1/tenants/{name}",         api_tenants_set,        ROUTE_AUDITED, "make a tenant, or replace all its terms"},
	{"DELETE", "/v1/tenants/{name}",         api_tenants_drop,       ROUTE_AUDITED, "remove a tenant and its keys"},
	{"GET",    "/v1/secrets",                api_secrets_list,       0,             "list the secrets of the tenant, without values"},
	{"GET",    "/v1/secrets/{name}",         api_secrets_get,        0,             "get a secret, without its value"},
	{"PUT",    "/v1/secrets/{name}",         api_secrets_set,        ROUTE_AUDITED, "make a secret, or replace its settings or value"},
	{"DELETE", "/v1/secrets/{name}",         api_secrets_drop,       ROUTE_AUDITED, "remove a secret; no sandbox sends it any more"},
	{"POST",   "/v1/cleanup",                api_cleanup_run,        ROUTE_AUDITED, "run the janitor now"},
	{"GET",    "/v1/cleanup",                api_cleanup_look,       0,             "counts of the last rounds of the janitor"},
	{"GET",    "/v1/events",                 api_events,             0,             "events, as a page or as a stream"},
	{"GET",    "/v1/audit",                  api_audit,              0,             "the audit log, in pages"},
	{"GET",    "/v1/audit/check",            api_audit_check,        0,             "check the hash chain of the audit log"},
	{"GET",    "/v1/verify",                 api_verify,             0,             "compare database, daemon, warden and kernel"},
	{"POST",   "/v1/agent-sessions",         api_sessions_create,    ROUTE_AUDITED, "make an agent session, or resume the one of an alias"},
	{"GET",    "/v1/agent-sessions",         api_sessions_list,      0,             "list agent sessions, in pages"},
	{"GET",    SESSION,                      api_sessions_get,       0,             "get an agent session with its lease"},
	{"DELETE", SESSION,                      api_sessions_delete,    ROUTE_AUDITED, "delete an agent session; 204 when it is verified gone, else 202"},
	{"POST",   SESSION "/runs",              api_sessions_run,       ROUTE_AUDITED, "queue a run of an agent session"},
	{"GET",    SESSION "/runs",              api_sessions_runs,      0,             "list runs of an agent session, newest first"},
	{"GET",    SESSION "/runs/{run}",        api_sessions_get_run,   0,             "get a run"},
	{"GET",    SESSION "/runs/{run}/events", api_sessions_events,    0,             "events of a run, from an offset on"},
	{"POST",   SESSION "/interrupt",         api_sessions_interrupt, ROUTE_AUDITED, "interrupt the running run"},
	{"POST",   SESSION "/answer",            api_sessions_answer,    ROUTE_AUDITED, "answer a question of a run"},
	{"GET",    SESSION "/logs",              api_sessions_logs,      0,             "the log of the runner"},
	{"GET",    SESSION "/terminal",          api_sessions_terminal,  ROUTE_AUDITED, "WebSocket: the terminal of an agent session, in its own directories"},
	{"POST",   "/v1/dev/faults",             api_dev_set,            ROUTE_AUDITED, "set a fault; only with --dev"},
	{"POST",   "/v1/dev/clock",              api_dev_clock,          ROUTE_AUDITED, "set the daemon's wall clock forward or back; only with --dev"},
	{"GET",    "/v1/dev/faults",             api_dev_list,           0,             "list the faults; only with --dev"},
	{"DELETE", "/v1/dev/faults",             api_dev_clear,          ROUTE_AUDITED, "clear all faults; only with --dev"},
	{"GET",    "/v1/templates",              api_templates_list,     0,             "list templates"},
	{"POST",   "/v1/templates",              api_templates_make,     ROUTE_STREAM | ROUTE_AUDITED, "import a template from an archive, or freeze the template host"},
	{"GET",    "/v1/templates/{name}",       api_templates_get,      0,             "get a template"},
	{"DELETE", "/v1/templates/{name}",       api_templates_forget,   ROUTE_AUDITED, "remove a template"},
	{0},
};
// clang-format on
