// Attaches a context to a connection when a request begins and takes it back when the connection is
// idle. Up to SPARE_MAX contexts are kept for reuse; a context whose buffers grew large is freed
// instead.
#include "http/request_context.h"

#include "base/mem.h"

#define SPARE_MAX 16
#define REPLY_HEAD_MAX (64 * 1024) // the head of a relayed reply is the server's
#define HEAD_KEPT 4096

void request_context_open(struct http_terms *terms)
{
	link_init(&terms->spare);
}

void request_context_attach(struct http_conn *conn)
{
	struct http_terms *terms = conn->terms;
	struct request_context *context;

	if (link_empty(&terms->spare)) {
		context = mem_new_of(struct request_context);
		context->x.arena = arena_new();
		context->buffers.head = BUF_INIT(REPLY_HEAD_MAX);
		context->buffers.extra = BUF_INIT(REPLY_HEAD_MAX / 2);
	} else {
		context = link_of(terms->spare.next, struct request_context, link);
		link_drop(&context->link);
		terms->spare_count--;
	}
	context->buffers.body_reader.stream = &conn->stream;
	conn->context = context;
	conn->buffers = &context->buffers;
}

static void request_context_free(struct request_context *context)
{
	arena_free(context->x.arena);
	body_reader_done(&context->buffers.body_reader);
	buf_done(&context->buffers.head);
	buf_done(&context->buffers.extra);
	free(context);
}

void request_context_release(struct http_conn *conn)
{
	struct http_terms *terms = conn->terms;
	struct request_context *context = take_ptr(conn->context);

	if (!context)
		return;
	conn->buffers = NULL;
	memory_quota_drop(&context->x.memory_quota);
	if (terms->spare_count >= SPARE_MAX ||
	    context->buffers.head.room + context->buffers.extra.room > HEAD_KEPT) {
		request_context_free(context);
		return;
	}
	arena_reset(context->x.arena);
	body_reader_reset(&context->buffers.body_reader);
	link_push(&terms->spare, &context->link);
	terms->spare_count++;
}

void request_context_close(struct http_terms *terms)
{
	list_each (at, &terms->spare)
		request_context_free(link_of(at, struct request_context, link));
	link_init(&terms->spare);
	terms->spare_count = 0;
}
