// Framing of HTTP/1 bodies: none, Content-Length, chunked, or until close. Works on whatever bytes
// are there and keeps its state in struct body. No I/O; malformed chunks are BAD_PEER.
#include "egress/body.h"

struct body body_of_request(const struct http1_head *head)
{
	if (head->chunked)
		return (struct body){.kind = BODY_CHUNKED};
	if (head->has_length && head->length)
		return (struct body){.kind = BODY_LENGTH, .left = head->length};
	return (struct body){.kind = BODY_NONE};
}

struct body body_of_reply(const struct http1_head *head, bool to_head)
{
	if (to_head || head->status == 204 || head->status == 304)
		return (struct body){.kind = BODY_NONE};
	if (head->chunked)
		return (struct body){.kind = BODY_CHUNKED};
	if (head->has_length)
		return (struct body){.kind = head->length ? BODY_LENGTH : BODY_NONE,
				     .left = head->length};
	return (struct body){.kind = BODY_CLOSE};
}

static fallible egress_body_take_chunks(struct body *body, struct str in, struct buf *out,
					size_t *out_used, bool *out_done)
{
	enum http1_verdict verdict = HTTP1_MORE;
	size_t all = 0;

	while (verdict == HTTP1_MORE && all < in.len) {
		struct str data;
		size_t used = 0;

		verdict = http1_unchunk(&body->chunks, str_skip(in, all), &data, &used);
		if (out)
			buf_str(out, data);
		all += used;
		if (!used)
			break;
	}
	*out_used = all;
	*out_done = verdict == HTTP1_DONE;
	if (verdict == HTTP1_MORE || verdict == HTTP1_DONE)
		return OK;
	return err_new(BAD_PEER, "bad_body", "the chunks of a body are malformed");
}

fallible body_take(struct body *body, struct str in, struct buf *out, size_t *out_used,
		   bool *out_done)
{
	if (body->kind == BODY_CHUNKED)
		return egress_body_take_chunks(body, in, out, out_used, out_done);
	TRY(body_measure(body, in, out_used, out_done));
	buf_add(out, in.at, *out_used);
	return OK;
}

fallible body_measure(struct body *body, struct str in, size_t *out_used, bool *out_done)
{
	switch (body->kind) {
	case BODY_NONE:
		*out_used = 0;
		*out_done = true;
		return OK;
	case BODY_LENGTH:
		*out_used = in.len < body->left ? in.len : (size_t)body->left;
		body->left -= *out_used;
		*out_done = !body->left;
		return OK;
	case BODY_CLOSE:
		*out_used = in.len;
		*out_done = false;
		return OK;
	case BODY_CHUNKED:
		break;
	}
	return egress_body_take_chunks(body, in, NULL, out_used, out_done);
}
