#include "http/desk.h"

#include "base/mem.h"

#define SPARE_MAX 16
#define REPLY_HEAD_MAX (64 * 1024) // that of a relayed reply is the server's
#define HEAD_KEPT 4096

void desk_open(struct http_terms *terms)
{
	link_init(&terms->spare);
}

void desk_sit(struct http_conn *conn)
{
	struct http_terms *terms = conn->terms;
	struct desk *desk;

	if (link_empty(&terms->spare)) {
		desk = mem_new_of(struct desk);
		desk->x.arena = arena_new();
		desk->papers.head = BUF_INIT(REPLY_HEAD_MAX);
		desk->papers.extra = BUF_INIT(REPLY_HEAD_MAX / 2);
	} else {
		desk = link_of(terms->spare.next, struct desk, link);
		link_drop(&desk->link);
		terms->spare_count--;
	}
	desk->papers.inlet.stream = &conn->stream;
	conn->desk = desk;
	conn->papers = &desk->papers;
}

static void desk_free(struct desk *desk)
{
	arena_free(desk->x.arena);
	inlet_done(&desk->papers.inlet);
	buf_done(&desk->papers.head);
	buf_done(&desk->papers.extra);
	free(desk);
}

void desk_leave(struct http_conn *conn)
{
	struct http_terms *terms = conn->terms;
	struct desk *desk = take_ptr(conn->desk);

	if (!desk)
		return;
	conn->papers = NULL;
	hoard_drop(&desk->x.hoard);
	if (terms->spare_count >= SPARE_MAX ||
	    desk->papers.head.room + desk->papers.extra.room > HEAD_KEPT) {
		desk_free(desk);
		return;
	}
	arena_reset(desk->x.arena);
	inlet_reset(&desk->papers.inlet);
	link_push(&terms->spare, &desk->link);
	terms->spare_count++;
}

void desk_close(struct http_terms *terms)
{
	list_each (at, &terms->spare)
		desk_free(link_of(at, struct desk, link));
	link_init(&terms->spare);
	terms->spare_count = 0;
}
