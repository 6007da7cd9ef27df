#include "api/api.h"

#include "api/boxes.h"
#include "api/health.h"
#include "api/templates.h"

#define BOX "/v1/sandboxes/{id}"

// clang-format off
const struct route api_routes[] = {
	{"GET",    "/v1/health",                api_health,          ROUTE_OPEN,   "is cove well; with a key: in detail"},
	{"POST",   "/v1/sandboxes",             api_boxes_create,    0,            "make a sandbox"},
	{"GET",    "/v1/sandboxes",             api_boxes_list,      0,            "the sandboxes, by labels, a page at a time"},
	{"GET",    BOX,                         api_boxes_get,       0,            "one sandbox, by id, short id or name"},
	{"PUT",    "/v1/sandboxes/{name}",      api_boxes_ensure,    0,            "the sandbox of that name, made if need be"},
	{"PATCH",  BOX,                         api_boxes_change,    0,            "change its labels, environment and terms"},
	{"DELETE", BOX,                         api_boxes_delete,    0,            "end a sandbox; 204 when it is verified gone"},
	{"GET",    "/v1/templates",             api_templates_list,  0,            "what sandboxes can start from"},
	{"POST",   "/v1/templates",             api_templates_make,  ROUTE_STREAM, "import an archive, or freeze the host's template"},
	{"GET",    "/v1/templates/{name}",      api_templates_get,   0,            "one template"},
	{"DELETE", "/v1/templates/{name}",      api_templates_forget, 0,           "remove a template"},
	{0},
};
// clang-format on
