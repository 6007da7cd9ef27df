// The request is set up as if its head had been read from a connection, then served like any other.
// The handler sees no difference: a callback that waits is a slow reader, one that fails is a lost
// client, and a cancellation is noticed wherever a hang-up would be.
//
// A cancelled exchange whose handler waits for something else is cancelled as a task, and every
// later wait of that task fails. So the callbacks get nothing more, except end(), which runs with
// cancellation masked.
#include "http/in_process.h"

#include <stdio.h>

#include "base/mem.h"
#include "base/secret.h"
#include "http/transport.h"
#include "loop/pump.h"
#include "loop/task.h"

#define BODY_MAX (1 << 20)
#define EXTRA_MAX (8 * 1024)
#define PIECE (64 * 1024)

struct in_process {
	struct http x; // first member: in_process_of() relies on it
	struct loop *loop;
	http_serve_fn *serve;
	struct in_process_calls calls;
	void *arg;
	struct buf extra;
	struct task *absent; // the handler waits for something else
	size_t at;	     // read offset in the body
	char *body;
	char length[24]; // Content-Length
	bool gone;	 // the exchange was cancelled
	bool is_bad;	 // such a request could not have come over a connection
	bool no_body;
	bool is_sized;
	uint64_t due;
};

static struct in_process *in_process_of(struct http *x)
{
	return link_of(x, struct in_process, x);
}

static fallible client_gone(void)
{
	return err_new(CANCELLED, "client_gone", "the exchange was cancelled");
}

// An error of a callback counts as a lost client: no more calls follow.
static fallible in_process_outcome(struct in_process *inner, struct err *err)
{
	inner->gone |= err != NULL;
	return err;
}

static fallible in_process_read(struct http *x, void *room, size_t size, size_t *out)
{
	struct in_process *inner = in_process_of(x);
	size_t left = x->held.len - inner->at;

	if (inner->gone)
		return client_gone();
	if (inner->calls.read)
		return in_process_outcome(inner, inner->calls.read(inner->arg, room, size, out));
	if (size > left)
		size = left;
	if (size)
		memcpy(room, x->held.at + inner->at, size);
	inner->at += size;
	*out = size;
	return OK;
}

static fallible tell_head(struct http *x, const char *type, bool is_whole, uint64_t length)
{
	struct in_process *inner = in_process_of(x);
	struct in_process_head head = {
		.status = x->status,
		.type = str_of(type ? type : ""),
		.fields = buf_ok(&inner->extra) ? buf_view(&inner->extra) : STR(""),
		.is_whole = is_whole,
		.is_sized = length != TRANSPORT_UNSIZED,
		.length = length != TRANSPORT_UNSIZED ? length : 0,
	};

	inner->no_body = transport_is_bodyless(x->status) || str_is(x->head.method, "HEAD");
	inner->is_sized = head.is_sized && !inner->no_body;
	inner->due = head.length;
	if (inner->gone)
		return client_gone();
	return in_process_outcome(inner, inner->calls.head(inner->arg, &head));
}

static fallible in_process_write(struct http *x, const void *bytes, size_t len)
{
	struct in_process *inner = in_process_of(x);

	if (len == 0 || inner->no_body)
		return OK;
	if (inner->gone)
		return client_gone();
	if (inner->is_sized && len > inner->due)
		return err_new(INTERNAL, "internal", "a reply longer than announced");
	inner->due -= inner->is_sized ? len : 0;
	TRY(in_process_outcome(inner, inner->calls.bytes(inner->arg, (struct str){bytes, len})));
	x->bytes_out += len;
	return OK;
}

static fallible in_process_reply(struct http *x, const char *type, struct str body)
{
	TRY(tell_head(x, type, true, body.len));
	return in_process_write(x, body.at, body.len);
}

static fallible in_process_begin(struct http *x, const char *type, uint64_t length)
{
	return tell_head(x, type, false, length);
}

static fallible in_process_end(struct http *x)
{
	struct in_process *inner = in_process_of(x);

	if (inner->gone)
		return client_gone();
	if (inner->is_sized && inner->due)
		return err_new(INTERNAL, "internal", "a reply shorter than announced");
	return OK;
}

static fallible in_process_send_file(struct http *x, int fd, uint64_t offset, uint64_t len)
{
	auto_free char *room = mem_grow(NULL, PIECE, 1);

	while (len > 0 && !in_process_of(x)->no_body) {
		size_t n = 0;

		TRY(pump_get(fd, offset, room, len < PIECE ? len : PIECE, &n));
		if (n == 0)
			return err_new(CONFLICT, "file_changed", "the file became shorter");
		TRY(in_process_write(x, room, n));
		offset += n;
		len -= n;
	}
	return OK;
}

static fallible in_process_recv_file(struct http *x, int fd, uint64_t max, uint64_t *out_len)
{
	auto_free char *room = mem_grow(NULL, PIECE, 1);
	uint64_t total = 0;

	if (!x->head.chunked && x->held.len > max)
		return http_too_large(max);
	for (size_t n = 1; n > 0; total += n) {
		TRY(in_process_read(x, room, PIECE, &n));
		if (total + n > max)
			return http_too_large(max);
		if (n > 0)
			TRY(pump_put(fd, room, n));
	}
	*out_len = total;
	return OK;
}

static void in_process_be_patient(struct http *x)
{
	(void)x; // callbacks limit their own waits
}

static fallible in_process_away(struct http *x, struct str probe)
{
	struct in_process *inner = in_process_of(x);

	(void)probe;
	if (inner->gone)
		return client_gone();
	inner->absent = task_current();
	return OK;
}

static void in_process_back(struct http *x)
{
	in_process_of(x)->absent = NULL;
}

static bool in_process_is_gone(struct http *x, struct str probe)
{
	(void)probe;
	return in_process_of(x)->gone;
}

static const struct http_transport in_process_way = {
	.read = in_process_read,
	.reply = in_process_reply,
	.begin = in_process_begin,
	.write = in_process_write,
	.end = in_process_end,
	.send_file = in_process_send_file,
	.recv_file = in_process_recv_file,
	.be_patient = in_process_be_patient,
	.away = in_process_away,
	.back = in_process_back,
	.is_gone = in_process_is_gone,
};

static struct str in_process_keep(struct arena *arena, struct str text)
{
	return (struct str){arena_dup(arena, text.at ? text.at : "", text.len), text.len};
}

static void add_field(struct http *x, struct str name, struct str value)
{
	if (x->head.field_count == HTTP1_FIELDS_MAX)
		return;
	x->head.fields[x->head.field_count++] = (struct http1_field){name, value};
}

static void write_head(struct in_process *inner, const struct in_process_ask *ask)
{
	struct http *x = &inner->x;
	struct http1_head *head = &x->head;

	head->method = in_process_keep(x->arena, ask->method);
	head->target = in_process_keep(x->arena, ask->target);
	head->minor = 1;
	head->keep_alive = true;
	head->chunked = inner->calls.read != NULL;
	if (ask->body.at || inner->calls.read)
		add_field(x, STR("Content-Type"),
			  in_process_keep(x->arena,
					  str_of(ask->type ? ask->type : "application/json")));
	if (!inner->calls.read && ask->body.at) {
		snprintf(inner->length, sizeof(inner->length), "%zu", ask->body.len);
		add_field(x, STR("Content-Length"), str_of(inner->length));
		head->has_length = true;
		head->length = x->body_left = ask->body.len;
		inner->body = mem_dup(ask->body.at, ask->body.len);
		x->held = (struct str){inner->body, ask->body.len};
		memory_quota_move(&x->memory_quota,
				  ask->body.len); // the body's own message is freed
	}
	for (size_t i = 0; i < ask->field_count; i++) {
		struct http1_field field = ask->fields[i];

		inner->is_bad |= !http1_is_field(field.name, field.value);
		add_field(x, in_process_keep(x->arena, field.name),
			  in_process_keep(x->arena, field.value));
	}
}

struct in_process *in_process_new(const struct in_process_ask *ask,
				  const struct in_process_calls *calls, void *arg)
{
	struct in_process *inner = mem_new_of(struct in_process);
	struct http *x = &inner->x;

	inner->loop = ask->loop;
	inner->serve = ask->serve;
	inner->calls = *calls;
	inner->arg = arg;
	inner->extra = BUF_INIT(EXTRA_MAX);
	x->way = &in_process_way;
	x->arena = arena_new();
	x->app = ask->app;
	x->principal = ask->principal;
	x->extra = &inner->extra;
	x->body_max = ask->body_max ? ask->body_max : BODY_MAX;
	x->uid = -1;
	x->peer = in_process_keep(x->arena, ask->peer.len ? ask->peer : STR("inner"));
	secret_hex(x->id, 8);
	x->trace = ask->trace.len ? in_process_keep(x->arena, ask->trace) : (struct str){x->id, 16};
	write_head(inner, ask);
	return inner;
}

void in_process_discard(struct in_process *inner)
{
	arena_free(inner->x.arena);
	memory_quota_drop(&inner->x.memory_quota);
	buf_done(&inner->extra);
	free(inner->body);
	free(inner);
}

void in_process_run(struct in_process *inner)
{
	struct http *x = &inner->x;

	if (inner->is_bad || !url_target(x->head.target, &x->url))
		err_free(http_reply(
			x, 400, NULL,
			STR("{\"code\":\"INVALID\",\"message\":\"the target or a field of "
			    "the request is malformed\",\"context\":{},\"httpStatus\":400}")));
	else
		inner->serve(x);
	if (!x->reply_begun && !inner->gone)
		err_free(http_reply(x, 500, NULL,
				    STR("{\"code\":\"INTERNAL\",\"message\":\"no answer\","
					"\"context\":{},\"httpStatus\":500}")));
	task_shield(true);
	inner->absent = NULL;
	inner->calls.end(inner->arg, x->reply_ended && !inner->gone);
	task_shield(false);
	in_process_discard(inner);
}

static void run_task(void *arg)
{
	in_process_run(arg);
}

void in_process_start(struct in_process *inner, const char *task_name)
{
	task_start(inner->loop, task_name, run_task, inner);
}

void in_process_cancel(struct in_process *inner)
{
	inner->gone = true;
	if (inner->absent)
		task_cancel(inner->absent);
}
