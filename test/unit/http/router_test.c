#include "http/router.h"

#include "base/mem.h"
#include "http/conn.h"
#include "tap.h"

static fallible nothing(struct http *x)
{
	(void)x;
	return OK;
}

static const struct route table[] = {
	{"GET", "/v1/health", nothing, ROUTE_OPEN, "a"},
	{"GET", "/v1/sandboxes", nothing, 0, "b"},
	{"POST", "/v1/sandboxes", nothing, 0, "c"},
	{"GET", "/v1/sandboxes/{id}", nothing, 0, "d"},
	{"DELETE", "/v1/sandboxes/{id}", nothing, 0, "e"},
	{"POST", "/v1/sandboxes/{id}/api/execute", nothing, 0, "f"},
	{"POST", "/v1/sandboxes/{id}/api/execute/stream", nothing, ROUTE_STREAM, "g"},
	{"GET", "/{a}/{b}/{c}/{d}/x", nothing, 0, "h"},
	{"GET", "/names/{name/}/{other}", nothing, 0, "i"},
	{NULL, NULL, NULL, 0, NULL},
};

static struct request_context context;
static struct http_conn conn = {.buffers = &context.buffers};
static struct http *x = &context.x;

__attribute__((destructor)) static void clean(void)
{
	arena_free(x->arena);
	buf_done(&context.buffers.extra);
}

static struct err *find(const char *method, const char *path, const struct route **out)
{
	if (!x->arena)
		x->arena = arena_new();
	arena_reset(x->arena);
	buf_done(&context.buffers.extra);
	context.buffers.extra = BUF_INIT(4096);
	x->conn = &conn;
	x->extra = &context.buffers.extra;
	x->head.method = str_of(method);
	memset(x->params, 0, sizeof(x->params));
	x->url.path = str_of(path);
	return router_find(table, x, out);
}

TEST(rows, "each request finds its row")
{
	static const struct {
		const char *method, *path, *what, *param;
	} rows[] = {
		{"GET", "/v1/health", "a", NULL},
		{"HEAD", "/v1/health", "a", NULL},
		{"GET", "/v1/sandboxes", "b", NULL},
		{"POST", "/v1/sandboxes", "c", NULL},
		{"GET", "/v1/sandboxes/box-1", "d", "box-1"},
		{"DELETE", "/v1/sandboxes/a%20b", "e", "a b"},
		{"DELETE", "/v1/sandboxes/..", "e", ".."},
		{"POST", "/v1/sandboxes/n/api/execute", "f", "n"},
		{"POST", "/v1/sandboxes/%6e/api/execute/stream", "g", "n"},
		{"GET", "/names/a%2fb%2F/c", "i", "a/b/"},
		{"GET", "/1/2/3/4/x", "h", "1"},
	};
	const struct route *row;

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		CHECK_OK(find(rows[i].method, rows[i].path, &row));
		CHECK_STR(row->what, rows[i].what);
		CHECK(x->route == row);
		CHECK(rows[i].param ? str_is(x->params[0], rows[i].param) : !x->params[0].at);
	}
	CHECK(str_is(x->params[3], "4"));
}

TEST(none, "an unknown path is not found, to the last slash")
{
	static const char *const paths[] = {"/",
					    "/v1",
					    "/v1/health/",
					    "/v1/healthy",
					    "/v1/%68ealth",
					    "//v1/health",
					    "/v1/sandboxes/",
					    "/v1/sandboxes//api/execute",
					    "/v1/sandboxes/a/b",
					    "/v1/sandboxes/n/api/execute/",
					    "/V1/health",
					    "/1/2/3/4/x/"};
	const struct route *row = NULL;

	for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++)
		CHECK_ERR(find("GET", paths[i], &row), NOT_FOUND);
	CHECK(!row);
}

TEST(method, "a wrong method gets the allowed ones")
{
	const struct route *row = NULL;
	auto_err err = find("PATCH", "/v1/sandboxes/box-1", &row);

	CHECK(err && err_kind(err) == ERR_BAD_METHOD);
	CHECK(strstr(err_hint_of(err), "GET, DELETE"));
	CHECK(strstr(context.buffers.extra.at, "Allow: GET, DELETE\r\n"));
	CHECK_ERR(find("get", "/v1/health", &row), BAD_METHOD);
}

TEST(escapes, "a name that hides a slash or a NUL, or is malformed, is refused")
{
	static const char *const paths[] = {"/v1/sandboxes/a%2fb", "/names/a/b%2fc",
					    "/names/a%00/b",	   "/v1/sandboxes/%00",
					    "/v1/sandboxes/%",	   "/v1/sandboxes/%4",
					    "/v1/sandboxes/%zz",   "/v1/sandboxes/a%2F"};
	const struct route *row = NULL;

	for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++)
		CHECK_ERR(find("GET", paths[i], &row), INVALID);
}
