// A request names PORT-ID-TOKEN, as the first label of a host below the domain, or as the first
// segment of the path. An unknown box, unknown port, wrong token and another tenant's port get the
// same answer, found by the same steps. Only a valid token learns more: that it has expired, that
// its box was stopped by request (410), that nothing listens yet.
//
// PORT-ID names a port without a token, as Daytona's clients do. Then the request has a credential
// elsewhere: a key of the API, the token of the sandbox in a field or in the query, a cookie that
// such a visit has set; or the sandbox is public. Else the answer is 401, whatever the reason. The
// server in the box sees none of these credentials.
//
// A request starts a box that is asleep, and keeps it awake as long as its connection. It ends with
// the box, and when its port is unexposed.
#include "preview/target.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "gateway/cancel_on_delete.h"
#include "http/relay.h"
#include "manager/access.h"
#include "preview/page.h"
#include "preview/pool.h"
#include "types/hostname.h"

#define DIAL_MS 5000
#define LISTED_MAX 64
#define COOKIE "daytona-sandbox-auth-"
#define COOKIE_S 3600
#define KEY_MS 10000 // between two checks of the key of an open connection
#define BEARER "Bearer "

static const uint16_t private_ports[] = {2280, 22222, 33333}; // toolbox, terminal, recording

// What let the request in.
enum target_right {
	RIGHT_PORT,   // the token of an exposed port, or a link that it signed
	RIGHT_LINK,   // a link that the token of the sandbox signed
	RIGHT_BOX,    // that token
	RIGHT_KEY,    // a key of the API
	RIGHT_PUBLIC, // the sandbox is public
};

struct caller {
	struct http *x;
	const struct preview_options *options;
	struct hostname_preview named;
	struct str path;   // the path for the box
	struct str prefix; // the part before it, for the client
	char id[ID_BOX_LEN + 1];
	char token[PREVIEW_TOKEN_TOKEN_MAX +
		   1]; // of the port, by which the visitor's was found good
	enum target_right right;
	char box_token[PREVIEW_TOKEN_BOX_LEN + 1]; // of the sandbox, but for RIGHT_PORT
	struct str link;			   // RIGHT_LINK
	struct str bearer;			   // of the request; len 0: none
	bool sets_cookie;
	struct box_ref ref;
	struct pool_conn *conn; // to the server; NULL: none
	bool is_kept;		// it may serve another request
};

static void caller_done(struct caller *caller)
{
	pool_conn_free(caller->conn);
	box_ref_end(&caller->ref);
}

static const struct target *target_of(const struct http *x)
{
	return x->app;
}

static bool by_host(struct caller *caller)
{
	const char *domain = caller->options->urls->domain;

	if (!domain ||
	    !hostname_read_preview(http_field(caller->x, "Host"), domain, &caller->named))
		return false;
	caller->path = caller->x->url.path;
	caller->prefix = STR("");
	return true;
}

// A name of any form below the domain: all of them lead here and nowhere else.
static bool target_is_beneath(const struct caller *caller)
{
	char host[HOSTNAME_MAX + 1], domain[HOSTNAME_MAX + 1];
	const char *ours = caller->options->urls->domain;
	struct str given = http_field(caller->x, "Host");
	const char *colon = given.at ? memchr(given.at, ':', given.len) : NULL;
	uint16_t port;

	if (!ours || !given.at || hostname_read_host(str_of(ours), domain, &port) != HOSTNAME_NAME)
		return false;
	// A token may contain characters that a host name must not: compare only the end.
	if (colon)
		given.len = (size_t)(colon - given.at);
	if (given.len >= sizeof(host))
		return false;
	for (size_t i = 0; i < given.len; i++)
		host[i] = given.at[i] >= 'A' && given.at[i] <= 'Z' ? (char)(given.at[i] | 32)
								   : given.at[i];
	host[given.len] = 0;
	return hostname_is_beneath(host, domain) && strcmp(host, domain) != 0;
}

// "/8080-0123456789ab-token/index.html"
static bool by_path(struct caller *caller)
{
	struct http *x = caller->x;
	struct str rest = str_skip(x->url.path, 1), label;
	const char *slash = memchr(rest.at, '/', rest.len);

	label = (struct str){rest.at, slash ? (size_t)(slash - rest.at) : rest.len};
	if (label.len > HOSTNAME_LABEL_MAX ||
	    !hostname_read_preview(str_of(arena_fmt(x->arena, STR_FMT ".path", STR_ARG(label))),
				   "path", &caller->named))
		return false;
	caller->prefix = (struct str){x->url.path.at, label.len + 1};
	caller->path = str_skip(x->url.path, label.len + 1);
	return true;
}

static const struct exposed_ports_entry *find_port(const struct caller *caller, struct entry **out)
{
	*out = access_find(caller->options->manager, &WHO_COVE, str_of(caller->named.id));
	return *out ? exposed_ports_find(&(*out)->ports, caller->named.port) : NULL;
}

static struct preview_token token_of(const struct entry *entry,
				     const struct exposed_ports_entry *port)
{
	return (struct preview_token){entry->record.id, port->port, port->token, port->ends_ms};
}

static struct preview_token link_of_box(const struct caller *caller, const struct entry *entry)
{
	return (struct preview_token){entry->record.id, caller->named.port, caller->box_token, 0};
}

// A link that the token of the sandbox signed for this port.
static enum preview_token_verdict judge_link(struct caller *caller, const struct entry *entry,
					     struct str link)
{
	struct preview_token of;

	if (!entry || !preview_token_is_link(link))
		return PREVIEW_TOKEN_WRONG;
	preview_token_of_box(caller->options->key, entry->record.id, &entry->record.labels,
			     caller->box_token);
	of = link_of_box(caller, entry);
	caller->right = RIGHT_LINK;
	caller->link = link;
	if (preview_token_is_void(&entry->record.labels, link))
		return PREVIEW_TOKEN_WRONG;
	return preview_token_check(caller->options->key, &of, link, clock_steady_ms());
}

// Checks the token for the named port.
static enum preview_token_verdict target_judge(struct caller *caller, struct entry **out)
{
	const struct exposed_ports_entry *port = find_port(caller, out);
	struct preview_token preview_token = {0};
	enum preview_token_verdict verdict;

	if (port) {
		preview_token = token_of(*out, port);
		memcpy(caller->token, port->token, sizeof(caller->token));
	}
	verdict = preview_token_check(caller->options->key, port ? &preview_token : NULL,
				      str_of(caller->named.token), clock_steady_ms());
	return verdict != PREVIEW_TOKEN_WRONG
		       ? verdict
		       : judge_link(caller, *out, str_of(caller->named.token));
}

// ---------------------------------------------------------------------------------------- visitors

static struct str visitor_bearer(const struct http *x)
{
	struct str value = http_field(x, "Authorization");

	return str_starts(value, BEARER) ? str_trim(str_skip(value, strlen(BEARER)))
					 : (struct str){0};
}

// Whether the key of the request may use the sandbox.
static bool visitor_has_key(const struct caller *caller, const struct entry *entry)
{
	const struct preview_options *options = caller->options;
	const struct who *who = caller->bearer.len ? authenticate_token(options->api, caller->x,
									caller->bearer)
						   : NULL;
	auto_err err = who ? access_ask(who, ACCESS_USE) : NULL;

	return who && !err && entry &&
	       access_find(options->manager, who, str_of(entry->record.id)) == entry;
}

// "a=1; b=2": the value of a cookie, and where it is.
static struct str visitor_cookie(const struct http *x, const struct caller *caller)
{
	const char *name = arena_fmt(x->arena, COOKIE "%s=", caller->named.id);
	struct str rest = http_field(x, "Cookie"), one;

	while (rest.len && str_cut(&rest, ';', &one))
		if (str_starts(str_trim(one), name))
			return str_skip(str_trim(one), strlen(name));
	return (struct str){0};
}

static bool is_public(const struct caller *caller, const struct entry *entry)
{
	for (size_t i = 0; i < sizeof(private_ports) / sizeof(*private_ports); i++)
		if (caller->named.port == private_ports[i])
			return false;
	return env_map_get(&entry->record.labels, STR(PREVIEW_TOKEN_PUBLIC));
}

// *out_given: the request has a credential.
static bool visitor_judge(struct caller *caller, struct entry **out, bool *out_given)
{
	struct http *x = caller->x;
	struct str field = http_field(x, PREVIEW_TOKEN_FIELD);
	struct str query = http_query(x, PREVIEW_TOKEN_QUERY);
	struct str cookie = visitor_cookie(x, caller);
	struct entry *entry = access_find(caller->options->manager, &WHO_COVE,
					  str_of(caller->named.id));

	*out = entry;
	caller->bearer = visitor_bearer(x);
	*out_given = field.len || query.len || cookie.len || caller->bearer.len;
	preview_token_of_box(caller->options->key, entry ? entry->record.id : "",
			     entry ? &entry->record.labels : &(struct env_map){0},
			     caller->box_token);
	caller->sets_cookie = preview_token_is_box(query, caller->box_token);
	caller->right = RIGHT_BOX;
	if (entry && (preview_token_is_box(field, caller->box_token) || caller->sets_cookie))
		return true;
	if (cookie.len && judge_link(caller, entry, cookie) == PREVIEW_TOKEN_GOOD)
		return true;
	caller->right = RIGHT_KEY;
	if (visitor_has_key(caller, entry))
		return true;
	caller->right = RIGHT_PUBLIC;
	return entry && is_public(caller, entry);
}

static fallible visitor_refuse(struct caller *caller, bool given)
{
	auto_err err = given ? authenticate_fail_preview(caller->options->auth, caller->x) : NULL;

	if (err && err_kind(err) == ERR_EXHAUSTED)
		return take_ptr(err);
	return err_hint(err_new(UNAUTHENTICATED, "no_preview_token",
				"the request has no valid credential for this preview"),
			"send '" PREVIEW_TOKEN_FIELD "', or a signed link");
}

static void drop_field(struct http *x, const char *name)
{
	size_t kept = 0;

	for (size_t i = 0; i < x->head.field_count; i++)
		if (!str_eq_nocase(x->head.fields[i].name, str_of(name)))
			x->head.fields[kept++] = x->head.fields[i];
	x->head.field_count = kept;
}

static struct str without_query(const struct http *x)
{
	struct str rest = x->url.query, one, name;
	auto_buf query = BUF_INIT(HTTP1_HEAD_MAX);

	while (rest.len && str_cut(&rest, '&', &one)) {
		struct str pair = one;

		str_cut(&pair, '=', &name);
		if (!str_is(name, PREVIEW_TOKEN_QUERY))
			buf_fmt(&query, "%s" STR_FMT, query.len ? "&" : "", STR_ARG(one));
	}
	return (struct str){arena_dup(x->arena, query.at ? query.at : "", query.len), query.len};
}

static void drop_cookie(const struct caller *caller)
{
	struct http *x = caller->x;
	const char *name = arena_fmt(x->arena, COOKIE "%s=", caller->named.id);

	for (size_t i = 0; i < x->head.field_count; i++) {
		struct http1_field *field = &x->head.fields[i];
		auto_buf value = BUF_INIT(HTTP1_HEAD_MAX);
		struct str rest = field->value, one;

		if (!str_eq_nocase(field->name, STR("Cookie")))
			continue;
		while (rest.len && str_cut(&rest, ';', &one))
			if (!str_starts(str_trim(one), name))
				buf_fmt(&value, "%s" STR_FMT, value.len ? "; " : "",
					STR_ARG(str_trim(one)));
		field->value = (struct str){
			arena_dup(x->arena, value.at ? value.at : "", value.len), value.len};
	}
}

// The server in the box must not learn what opens its previews.
static void visitor_hide(struct caller *caller)
{
	struct http *x = caller->x;
	struct str bearer = visitor_bearer(x);

	drop_field(x, PREVIEW_TOKEN_FIELD);
	drop_field(x, "X-Daytona-Skip-Preview-Warning");
	drop_cookie(caller);
	if (bearer.len && authenticate_token(caller->options->api, x, bearer))
		drop_field(x, "Authorization");
	if (http_query(x, PREVIEW_TOKEN_QUERY).at) {
		x->url.query = without_query(x);
		x->head.target = str_of(arena_fmt(x->arena, STR_FMT "%s" STR_FMT,
						  STR_ARG(x->url.path), x->url.query.len ? "?" : "",
						  STR_ARG(x->url.query)));
	}
}

// A visit with the token in the query sets a cookie, for the requests of the page.
static void set_cookie(struct caller *caller, const struct entry *entry)
{
	struct preview_token of = link_of_box(caller, entry);
	char link[PREVIEW_TOKEN_LINK_LEN + 1];

	preview_token_sign(caller->options->key, &of, clock_steady_ms() + COOKIE_S * 1000ll, link);
	http_set(caller->x, "Set-Cookie",
		 str_of(arena_fmt(caller->x->arena,
				  COOKIE "%s=%s; Path=" STR_FMT
					 "/; Max-Age=%d; HttpOnly; SameSite=Lax",
				  caller->named.id, link, STR_ARG(caller->prefix), COOKIE_S)));
}

// Whether what let the request in still does.
static bool right_holds(const struct caller *caller, int64_t *out_until)
{
	struct loop *loop = caller->options->manager->loop;
	const struct entry *entry = access_find(caller->options->manager, &WHO_COVE,
						str_of(caller->named.id));
	char token[PREVIEW_TOKEN_BOX_LEN + 1];
	int64_t left;

	if (!entry)
		return false;
	if (caller->right == RIGHT_PUBLIC)
		return is_public(caller, entry);
	if (caller->right == RIGHT_KEY) {
		*out_until = loop_now(loop) + KEY_MS;
		return visitor_has_key(caller, entry);
	}
	preview_token_of_box(caller->options->key, entry->record.id, &entry->record.labels, token);
	if (strcmp(token, caller->box_token) != 0)
		return false;
	if (caller->right == RIGHT_BOX)
		return true;
	left = preview_token_end(&(struct preview_token){0}, caller->link) - clock_steady_ms();
	*out_until = loop_now(loop) + left + 1;
	return left > 0 && !preview_token_is_void(&entry->record.labels, caller->link);
}

// --------------------------------------------------------------------------------------- the relay

static fallible target_no_listener(struct caller *caller, const struct files *files)
{
	struct fileop_port *ports = arena_take(caller->x->arena, LISTED_MAX * sizeof(*ports));
	struct page page = {
		.status = 502,
		.code = "PORT_CLOSED",
		.port = caller->named.port,
		.waits = true,
	};
	size_t count = 0;

	TRY(box_ref_explain(files_ports(files, ports, LISTED_MAX, &count)));
	page.listening = ports;
	page.listening_count = count < LISTED_MAX ? count : LISTED_MAX;
	page.title = arena_fmt(caller->x->arena, "Nothing listens on port %u yet",
			       caller->named.port);
	page.text = "Start a server there; on localhost or on all addresses, both are found.";
	return page_answer(caller->x, &page);
}

// Whether the port is still exposed with the same token, and neither token nor link has expired.
// The client's token was already verified against that token: no new signature check.
static bool still_holds(const void *arg, int64_t *out_until)
{
	const struct caller *caller = arg;
	struct entry *entry;
	const struct exposed_ports_entry *port = find_port(caller, &entry);
	struct preview_token preview_token;
	int64_t end, now = clock_steady_ms();

	if (caller->right != RIGHT_PORT)
		return right_holds(caller, out_until);
	if (!port || strcmp(port->token, caller->token) != 0)
		return false;
	preview_token = token_of(entry, port);
	end = preview_token_end(&preview_token, str_of(caller->named.token));
	if (end)
		*out_until = loop_now(caller->options->manager->loop) + end - now + 1;
	return !end || now < end;
}

static fallible target_relay(struct caller *caller, bool is_reused)
{
	struct http *x = caller->x;
	const struct entry *entry = caller->ref.entry;
	bool host_form = !caller->prefix.len;
	// Copied: a reload may replace them.
	const char *proto = host_form		? arena_dup(x->arena, caller->options->urls->proto,
							    strlen(caller->options->urls->proto))
			    : target_of(x)->tls ? "https"
						: "http";
	const char *original = arena_fmt(x->arena, "%s://" STR_FMT STR_FMT, proto,
					 STR_ARG(http_field(x, "Host")), STR_ARG(x->head.target));
	const struct http1_field more[] = {
		{STR("X-Original-URL"), str_of(original)},
		{STR("X-Sandbox-Name"), str_of(record_host(&entry->record))},
	};
	struct relay_options way = {
		.loop = caller->options->manager->loop,
		.conn = &caller->conn->relay,
		.is_kept = &caller->is_kept,
		.host = str_of(caller->conn->host),
		.path = caller->path,
		.proto = proto,
		.more = more,
		.more_count = 2,
		.prefix = caller->prefix,
		.keep_bearer = true,
		.is_reused = is_reused,
	};
	auto_cancel_on_delete cancel_on_delete = cancel_on_delete_begin_while(caller->ref.entry, x,
									      still_holds, caller);

	return relay_run(x, &way);
}

static fallible bad_server(struct http *x, struct err *err)
{
	bool late = err_kind(err) == ERR_TIMEOUT;
	struct page page = {
		.status = late ? 504 : 502,
		.code = late ? "PREVIEW_TIMEOUT" : "BAD_PREVIEW",
		.title = late ? "The server does not answer" : "The server's answer is not HTTP",
		.text = arena_fmt(x->arena, "%s.", err_message(err)),
	};

	err_free(err);
	return page_answer(x, &page);
}

// Whether the request may be repeated on a new connection when the kept one is dead.
static bool may_repeat(const struct http *x)
{
	return (str_is(x->head.method, "GET") || str_is(x->head.method, "HEAD")) &&
	       !x->head.chunked && !x->body_left && !http1_field(&x->head, "Upgrade").at;
}

static fallible caller_dial(struct caller *caller, const struct files *files)
{
	int fd = -1;

	TRY(files_dial(files, caller->named.port, &fd));
	return pool_conn_new(caller->options->manager->loop, fd, caller->named.port, &caller->conn);
}

static fallible target_box_ref(struct caller *caller)
{
	struct http *x = caller->x;
	struct pool *pool = caller->options->pool;
	struct files files;
	struct err *err = OK;
	bool is_reused = false, again;
	int64_t until;

	TRY(box_ref_begin(caller->options->manager, &WHO_COVE, str_of(caller->id), &caller->ref));
	files = (struct files){
		.box = caller->ref.box,
		.user = "",
		.deadline = loop_now(caller->options->manager->loop) + DIAL_MS,
	};
	// Starting the box took a while: check again.
	if (!still_holds(caller, &until))
		return err_new(NOT_FOUND, "invalid_token",
			       "Access denied: Invalid token or port not exposed");
	if (may_repeat(x)) {
		caller->conn = pool_take(pool, caller->ref.entry, caller->named.port);
		is_reused = caller->conn;
	}
	do {
		if (!caller->conn)
			err = caller_dial(caller, &files);
		if (err && err_kind(err) == ERR_BAD_PEER) {
			err_free(err);
			return target_no_listener(caller, &files);
		}
		TRY(box_ref_explain(err));
		err = target_relay(caller, is_reused);
		// The server closed it at the same moment: retry on a new connection.
		again = err && !strcmp(err_reason(err), "stale");
		is_reused = false;
		if (again) {
			err_free(take_ptr(err));
			pool_conn_free(take_ptr(caller->conn));
		}
	} while (again);
	if (caller->is_kept)
		pool_give(pool, caller->ref.entry, take_ptr(caller->conn));
	if (err && !x->reply_begun &&
	    (err_kind(err) == ERR_BAD_PEER || err_kind(err) == ERR_TIMEOUT))
		return bad_server(x, err);
	return err;
}

// A path without its slash: relative links of the page would lead out of the preview.
static fallible add_slash(struct caller *caller)
{
	struct http *x = caller->x;

	http_set(x, "Location",
		 str_of(arena_fmt(x->arena, STR_FMT "/%s" STR_FMT, STR_ARG(caller->prefix),
				  x->url.query.len ? "?" : "", STR_ARG(x->url.query))));
	return http_reply_empty(x, 308);
}

static fallible target_enter(struct caller *caller)
{
	struct http *x = caller->x;
	enum preview_token_verdict verdict;
	struct entry *entry;

	if (caller->options->manager->unknown)
		return err_new(UNAVAILABLE, "starting", "cove is starting; try again in a moment");
	if (!by_host(caller)) {
		if (target_is_beneath(caller))
			return authenticate_fail_preview(caller->options->auth, x);
		TRY(authenticate_host(caller->options->auth, x));
		if (!by_path(caller) && x->url.path.len > 1 && x->url.path.at[1] >= '0' &&
		    x->url.path.at[1] <= '9')
			return authenticate_fail_preview(caller->options->auth,
							 x); // a malformed name
		if (!caller->named.port)
			return err_new(NOT_FOUND, "no_preview", "There is no preview here");
	}
	if (!caller->named.token[0]) {
		bool given = false;

		if (!visitor_judge(caller, &entry, &given))
			return visitor_refuse(caller, given);
		verdict = PREVIEW_TOKEN_GOOD;
	} else {
		verdict = target_judge(caller, &entry);
	}
	if (verdict == PREVIEW_TOKEN_WRONG)
		return authenticate_fail_preview(caller->options->auth, x);
	snprintf(caller->id, sizeof(caller->id), "%s", entry->record.id);
	if (verdict == PREVIEW_TOKEN_OVER)
		return page_answer(x, &(struct page){.status = 410,
						     .code = "PREVIEW_EXPIRED",
						     .title = "This link has ended",
						     .text = "It has expired. Ask for a new one."});
	// Stopped by request, not by idleness or the host's shutdown: only a request starts it
	// again.
	if (state_is_stopped(entry->record.state) && !entry->moving && !entry->record.reason[0])
		return page_answer(
			x, &(struct page){.status = 410,
					  .code = "STALE_PREVIEW_URL",
					  .title = "This sandbox is stopped",
					  .text = "It was stopped by request, and starts by "
						  "request only."});
	if (!caller->path.len)
		return add_slash(caller);
	if (caller->sets_cookie)
		set_cookie(caller, entry);
	if (caller->right != RIGHT_PORT)
		visitor_hide(caller);
	return target_box_ref(caller);
}

// Maps other errors; the rest are internal errors.
static fallible target_answer(struct http *x, struct err *failure)
{
	static const struct {
		const char *reason, *code, *title;
	} rows[] = {
		{"invalid_token", "INVALID_TOKEN", "Invalid token or port not exposed"},
		{"no_sandbox", "INVALID_TOKEN", "Invalid token or port not exposed"},
		{"no_preview_token", "UNAUTHORIZED", "This preview needs a token"},
		{"no_preview", "NO_PREVIEW", "There is no preview here"},
		{"too_many_failures", "TOO_MANY_FAILURES", "Too many wrong tokens"},
		{"paused", "SANDBOX_PAUSED", "This sandbox is paused"},
		{"cancelled", "SANDBOX_ENDED", "This sandbox has ended"},
		{NULL, "UNAVAILABLE", "The preview cannot be shown"},
	};
	auto_err err = failure;
	int status = err_kind(err) == ERR_CANCELLED ? 502 : err_http(err);
	struct page page = {.status = status, .waits = status == 503};
	size_t i = 0;

	while (rows[i].reason && strcmp(rows[i].reason, err_reason(err)) != 0)
		i++;
	page.code = rows[i].code;
	page.title = rows[i].title;
	page.retry_s = err_kind(err) == ERR_EXHAUSTED ? AUTHENTICATE_SPAN_S : 0;
	page.text = status == 500 ? "Something went wrong." : err_message(err);
	if (status == 500)
		log_event(LOG_ERROR, "preview.failed", "request", x->id, "trail", err_trail(err),
			  NULL);
	return page_answer(x, &page);
}

// Logs neither path, host nor token.
static void target_note(const struct caller *caller, int64_t began_us)
{
	const struct http *x = caller->x;
	char status[16], ms[32], method[16], port[8], peer[64];

	if (!log_wants(LOG_DEBUG))
		return;
	snprintf(status, sizeof(status), "%d", x->status);
	snprintf(ms, sizeof(ms), "%.3f", (double)(clock_us() - began_us) / 1000);
	snprintf(method, sizeof(method), STR_FMT, STR_ARG(x->head.method));
	snprintf(port, sizeof(port), "%u", caller->named.port);
	snprintf(peer, sizeof(peer), STR_FMT, STR_ARG(x->peer));
	log_event(LOG_DEBUG, "preview", "request", x->id, "method", method, "sandbox",
		  caller->id[0] ? caller->id : NULL, "port", port, "status", status, "ms", ms,
		  "peer", peer, NULL);
}

void target_serve(struct http *x)
{
	on_exit_call(caller_done) struct caller caller = {.x = x, .options = target_of(x)->options};
	int64_t began_us = clock_us();
	struct err *err;

	task_trace(x->trace.at);
	err = target_enter(&caller);
	if (err && !x->reply_begun)
		err = target_answer(x, err);
	err_free(err);
	target_note(&caller, began_us);
	task_trace(NULL);
}

void target_refuse(struct http *x, struct err *err)
{
	err_free(target_answer(x, err)); // fails only if the client is gone
}
