#include "api/api.h"

#include "api/boxes.h"
#include "api/cleanup.h"
#include "api/dev.h"
#include "api/egress.h"
#include "api/events.h"
#include "api/health.h"
#include "api/keys.h"
#include "api/ports.h"
#include "api/sessions.h"
#include "api/templates.h"

#define BOX "/v1/sandboxes/{id}"
#define SESSION "/v1/agent-sessions/{id}"

// clang-format off
const struct route api_routes[] = {
	{"GET",    "/v1/health",                api_health,          ROUTE_OPEN,   "is cove well; with a key: in detail"},
	{"POST",   "/v1/sandboxes",             api_boxes_create,    ROUTE_AUDITED,   "make a sandbox"},
	{"GET",    "/v1/sandboxes",             api_boxes_list,      0,            "the sandboxes, by labels, a page at a time"},
	{"GET",    BOX,                         api_boxes_get,       0,            "one sandbox, by id, short id or name"},
	{"PUT",    "/v1/sandboxes/{name}",      api_boxes_ensure,    ROUTE_AUDITED,   "the sandbox of that name, made if need be"},
	{"PATCH",  BOX,                         api_boxes_change,    ROUTE_AUDITED,   "change its labels, environment and terms"},
	{"DELETE", BOX,                         api_boxes_delete,    ROUTE_AUDITED,   "end a sandbox; 204 when it is verified gone"},
	{"POST",   BOX "/pause",                api_boxes_pause,     ROUTE_AUDITED,   "freeze a sandbox until it is resumed"},
	{"POST",   BOX "/resume",               api_boxes_resume,    ROUTE_AUDITED,   "let a paused sandbox run again"},
	{"POST",   BOX "/stop",                 api_boxes_stop,      ROUTE_AUDITED,   "end what runs in a sandbox and keep its files"},
	{"POST",   BOX "/start",                api_boxes_start,     ROUTE_AUDITED,   "start a stopped sandbox on its files"},
	{"POST",   BOX "/ports",                api_ports_expose,    ROUTE_AUDITED,   "expose a port: it gets a token and the address of its preview"},
	{"GET",    BOX "/ports",                api_ports_list,      0,            "ports that are exposed, and those that somebody listens on"},
	{"DELETE", BOX "/ports/{port}",         api_ports_unexpose,  ROUTE_AUDITED,   "take a port back; its token opens nothing any more"},
	{"POST",   BOX "/ports/{port}/links",   api_ports_link,      ROUTE_AUDITED,   "a link to its preview that ends by itself"},
	{"GET",    BOX "/ports/{port}/tcp",     api_ports_tcp,       0,            "WebSocket: a connection to a port, bytes as binary messages"},
	{"GET",    BOX "/egress",               api_egress,          0,            "what it wanted from outside, and what became of that, as a page or as a stream"},
	{"POST",   "/v1/keys",                  api_keys_make,       ROUTE_AUDITED,   "make a key; its secret is told this once"},
	{"GET",    "/v1/keys",                  api_keys_list,       0,            "the keys"},
	{"DELETE", "/v1/keys/{key}",            api_keys_revoke,     ROUTE_AUDITED,   "revoke a key at once"},
	{"GET",    "/v1/tenants",               api_tenants_list,    0,            "the tenants, with what they use"},
	{"GET",    "/v1/tenants/{name}",        api_tenants_get,     0,            "one tenant"},
	{"PUT",    "/v1/tenants/{name}",        api_tenants_set,     ROUTE_AUDITED,   "make a tenant, or change all of its terms"},
	{"DELETE", "/v1/tenants/{name}",        api_tenants_drop,    ROUTE_AUDITED,   "remove a tenant and its keys"},
	{"POST",   "/v1/cleanup",               api_cleanup_run,     ROUTE_AUDITED,   "sweep now"},
	{"GET",    "/v1/cleanup",               api_cleanup_look,    0,            "what the sweeps did"},
	{"GET",    "/v1/events",                api_events,          0,            "what happens, as a page or as a stream"},
	{"GET",    "/v1/audit",                 api_audit,           0,            "who did what, row by row"},
	{"GET",    "/v1/audit/check",           api_audit_check,     0,            "whether the audit log is whole"},
	{"GET",    "/v1/verify",                api_verify,          0,            "whether store, warden and kernel agree"},
	{"POST",   "/v1/agent-sessions",              api_sessions_create, ROUTE_AUDITED,   "make a session, or resume the one of an alias"},
	{"GET",    "/v1/agent-sessions",              api_sessions_list,   0,            "the sessions, a page at a time"},
	{"GET",    SESSION,                     api_sessions_get,    0,            "one session, with its lease"},
	{"DELETE", SESSION,                     api_sessions_delete, ROUTE_AUDITED,   "end a session; 204 when all of it is gone, else 202"},
	{"POST",   SESSION "/runs",             api_sessions_run,    ROUTE_AUDITED,   "give its runner work"},
	{"GET",    SESSION "/runs",             api_sessions_runs,   0,            "its runs, the newest first"},
	{"GET",    SESSION "/runs/{run}",       api_sessions_get_run, 0,           "one run"},
	{"GET",    SESSION "/runs/{run}/events", api_sessions_events, 0,           "what happens in a run, as events, from an offset on"},
	{"POST",   SESSION "/interrupt",        api_sessions_interrupt, ROUTE_AUDITED,  "end what is under way"},
	{"POST",   SESSION "/answer",           api_sessions_answer, ROUTE_AUDITED,   "answer a run's question"},
	{"GET",    SESSION "/logs",             api_sessions_logs,   0,            "what its runner wrote"},
	{"GET",    SESSION "/terminal",         api_sessions_terminal, ROUTE_AUDITED, "WebSocket: its terminal, in its own directories"},
	{"POST",   "/v1/dev/faults",            api_dev_set,         ROUTE_AUDITED,   "set a fault; only with --dev"},
	{"POST",   "/v1/dev/clock",             api_dev_clock,       ROUTE_AUDITED,   "set the daemon's wall clock on, or back; only with --dev"},
	{"GET",    "/v1/dev/faults",            api_dev_list,        0,            "the faults that wait; only with --dev"},
	{"DELETE", "/v1/dev/faults",            api_dev_clear,       ROUTE_AUDITED,   "clear all faults; only with --dev"},
	{"GET",    "/v1/templates",             api_templates_list,  0,            "what sandboxes can start from"},
	{"POST",   "/v1/templates",             api_templates_make,  ROUTE_STREAM | ROUTE_AUDITED, "import an archive, or freeze the host's template"},
	{"GET",    "/v1/templates/{name}",      api_templates_get,   0,            "one template"},
	{"DELETE", "/v1/templates/{name}",      api_templates_forget, ROUTE_AUDITED,  "remove a template"},
	{0},
};
// clang-format on
