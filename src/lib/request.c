// A streamed request. A connection whose reply was read to its end goes back to the client; any
// other is closed.
#include "lib/request.h"

#include "base/mem.h"
#include "lib/http_call.h"

struct moving {
	struct cove_request *request;
	const void *from;
	void *to;
	size_t len;
};

static fallible lib_request_begin(void *arg)
{
	struct cove_request *r = ((struct moving *)arg)->request;

	if (r->range[0])
		http_client_header(r->http, "Range", str_of(r->range));
	if (r->last_event[0])
		http_client_header(r->http, "Last-Event-ID", str_of(r->last_event));
	if (r->type)
		return http_client_begin(r->http, r->method, r->path, r->type);
	TRY(http_client_ask(r->http, r->method, r->path, r->body, &r->status), "%s %s", r->method,
	    r->path);
	return http_call_accept(r->cove, r->http, r->status);
}

fallible request_begin(struct cove_request *r)
{
	struct moving moving = {.request = r};

	TRY(http_call_take(r->cove, &r->http));
	TRY(private_wait(r->cove, PRIVATE_DEFAULT, lib_request_begin, &moving));
	r->finished = !r->type;
	return OK;
}

static fallible write_piece(void *arg)
{
	struct moving *m = arg;

	return http_client_write(m->request->http, m->from, m->len);
}

fallible request_write(struct cove_request *r, const void *bytes, size_t len)
{
	struct moving moving = {.request = r, .from = bytes, .len = len};

	if (r->finished || r->broken)
		return err_new(INVALID, "bad_state", "the request body is already finished");
	r->broken = true; // an incomplete chunk cannot be taken back
	TRY(private_wait(r->cove, PRIVATE_DEFAULT, write_piece, &moving));
	r->broken = false;
	return OK;
}

static fallible lib_request_finish(void *arg)
{
	struct cove_request *r = ((struct moving *)arg)->request;

	TRY(http_client_finish(r->http, &r->status));
	return http_call_accept(r->cove, r->http, r->status);
}

fallible request_finish(struct cove_request *r)
{
	struct moving moving = {.request = r};

	if (r->finished)
		return OK;
	if (r->broken)
		return err_new(INVALID, "bad_state", "the request failed earlier");
	r->finished = true;
	return private_wait(r->cove, PRIVATE_DEFAULT, lib_request_finish, &moving);
}

static fallible read_piece(void *arg)
{
	struct moving *m = arg;

	return http_client_read(m->request->http, m->to, m->len, &m->len);
}

fallible request_read(struct cove_request *r, void *room, size_t size, int64_t timeout_ms,
		      size_t *out)
{
	struct moving moving = {.request = r, .to = room, .len = size};

	if (!r->finished)
		return err_new(INVALID, "bad_state", "finish the request first");
	if (r->ended || size == 0) {
		*out = 0;
		return OK;
	}
	TRY(private_wait(r->cove, timeout_ms, read_piece, &moving));
	r->ended = moving.len == 0;
	*out = moving.len;
	return OK;
}

fallible request_body(struct cove_request *r, struct buf *out)
{
	size_t n = 1;

	while (n > 0) {
		char *room = buf_space(out, 64 * 1024);

		if (!room)
			return err_new(TOO_LARGE, "reply_too_large", "the reply is too large");
		TRY(request_read(r, room, 64 * 1024, PRIVATE_DEFAULT, &n));
		buf_grew(out, n);
	}
	return OK;
}

int request_fd(const struct cove_request *r)
{
	return r->http ? http_client_fd(r->http) : -1;
}

void request_done(struct cove_request *r)
{
	if (r->http && r->ended)
		http_call_give(r->cove, r->http);
	else
		http_client_free(r->http);
	r->http = NULL;
}

enum cove_kind cove_request_open(struct cove *cove, const char *method, const char *path,
				 const char *type, struct cove_request **out,
				 struct cove_error *error)
{
	struct cove_request *r = mem_new_of(struct cove_request);
	struct err *err;

	private_begin(cove);
	r->cove = cove;
	r->own_method = mem_str(method);
	r->own_path = mem_str(path);
	r->own_type = type ? mem_str(type) : NULL;
	r->method = r->own_method;
	r->path = r->own_path;
	r->type = r->own_type;
	err = request_begin(r);
	if (err) {
		cove_request_free(r);
		return private_end(cove, err, error);
	}
	*out = r;
	return COVE_OK;
}

enum cove_kind cove_request_write(struct cove_request *request, const void *bytes, size_t len,
				  struct cove_error *error)
{
	private_begin(request->cove);
	return private_end(request->cove, request_write(request, bytes, len), error);
}

enum cove_kind cove_request_finish(struct cove_request *request, struct cove_error *error)
{
	private_begin(request->cove);
	return private_end(request->cove, request_finish(request), error);
}

enum cove_kind cove_request_read(struct cove_request *request, void *room, size_t size,
				 size_t *out_len, struct cove_error *error)
{
	private_begin(request->cove);
	return private_end(request->cove,
			   request_read(request, room, size, PRIVATE_DEFAULT, out_len), error);
}

void cove_request_free(struct cove_request *request)
{
	if (!request)
		return;
	request_done(request);
	free(request->own_method);
	free(request->own_path);
	free(request->own_type);
	free(request);
}
