// libwslay parses the frames: shortest lengths, short and unfragmented control frames, masks.
// Sequences of frames are checked here: reserved bits, unknown opcodes, masking by the right side,
// order of fragments, the length of a message before its bytes are stored, UTF-8 as it arrives,
// close codes.
//
// A message is collected in one buffer that grows with the received bytes, not with the announced
// length.
#include "codec/ws.h"

#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>
#include <wslay/wslay.h>

#include "base/mem.h"
#include "codec/text.h"

#define GUID "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
#define KEPT_MAX (64 * 1024) // a larger buffer is freed after its message

struct ws_reader {
	struct wslay_frame_context *frames;
	struct str *in; // while ws_read() runs
	bool is_server;
	bool in_frame;	 // its header was read
	bool in_message; // a fragment was read, and the last one was not
	bool is_text;
	bool told; // `message` was returned, and is to be cleared
	bool is_over;
	uint64_t left; // unread bytes of the frame's payload
	size_t max;
	size_t checked; // bytes of a text that were checked as UTF-8
	struct buf message;
	struct buf control;
};

bool ws_is_key(struct str key)
{
	auto_buf bytes = BUF_INIT(WS_KEY_LEN);

	return key.len == WS_KEY_LEN && text_unbase64(&bytes, key) && bytes.len == 16;
}

void ws_accept(struct str key, char out[WS_ACCEPT_LEN + 1])
{
	auto_buf text = BUF_INIT(256), base64 = BUF_INIT(64);
	unsigned char hash[SHA_DIGEST_LENGTH];
	SHA_CTX work;

	buf_str(&text, key);
	buf_text(&text, GUID);
	SHA1_Init(
		&work); // see base/secret.c: SHA1() uses the provider interface, which takes 20 us
	SHA1_Update(&work, text.at, text.len);
	SHA1_Final(hash, &work);
	text_base64(&base64, hash, sizeof(hash));
	memcpy(out, base64.at, WS_ACCEPT_LEN + 1);
}

size_t ws_head(uint8_t out[WS_HEAD_MAX], enum ws_opcode opcode, bool is_final, uint64_t len,
	       const uint8_t mask[4])
{
	size_t at = 2;
	int wide = len < 126 ? 0 : len < 65536 ? 2 : 8;

	out[0] = (uint8_t)((is_final ? 0x80 : 0) | opcode);
	out[1] = (uint8_t)((mask ? 0x80 : 0) | (wide == 0 ? len : wide == 2 ? 126 : 127));
	for (int i = wide - 1; i >= 0; i--)
		out[at++] = (uint8_t)(len >> (8 * i));
	if (mask) {
		memcpy(out + at, mask, 4);
		at += 4;
	}
	return at;
}

void ws_mask(void *bytes, size_t len, const uint8_t mask[4], size_t offset)
{
	uint8_t *at = bytes;

	for (size_t i = 0; i < len; i++)
		at[i] ^= mask[(offset + i) & 3];
}

size_t ws_close_body(uint8_t out[WS_CONTROL_MAX], int code, struct str reason)
{
	if (reason.len > WS_REASON_MAX)
		reason.len = text_utf8_whole((struct str){reason.at, WS_REASON_MAX});
	out[0] = (uint8_t)(code >> 8);
	out[1] = (uint8_t)code;
	if (reason.len)
		memcpy(out + 2, reason.at, reason.len);
	return 2 + reason.len;
}

static ssize_t on_recv(uint8_t *room, size_t size, int flags, void *arg)
{
	struct ws_reader *reader = arg;

	(void)flags;
	if (reader->in->len == 0)
		return -1;
	if (size > reader->in->len)
		size = reader->in->len;
	memcpy(room, reader->in->at, size);
	*reader->in = str_skip(*reader->in, size);
	return (ssize_t)size;
}

struct ws_reader *ws_reader_new(bool is_server, size_t max)
{
	struct wslay_frame_callbacks calls = {.recv_callback = on_recv};
	struct ws_reader *reader = mem_new_of(struct ws_reader);

	if (wslay_frame_context_init(&reader->frames, &calls, reader) != 0)
		abort(); // out of memory
	reader->is_server = is_server;
	reader->max = max;
	reader->message = BUF_INIT(max);
	reader->control = BUF_INIT(WS_CONTROL_MAX);
	return reader;
}

void ws_reader_free(struct ws_reader *reader)
{
	if (!reader)
		return;
	wslay_frame_context_free(reader->frames);
	buf_done(&reader->message);
	buf_done(&reader->control);
	free(reader);
}

size_t ws_held(const struct ws_reader *reader)
{
	return reader->message.room;
}

static enum ws_event ws_fault(struct ws_reader *reader, struct ws_item *out, int code,
			      const char *why)
{
	reader->is_over = true;
	*out = (struct ws_item){.code = code, .fault = why};
	return WS_FAULT;
}

// Checks whether a frame may begin here.
static const char *judge_head(const struct ws_reader *reader, const struct wslay_frame_iocb *frame)
{
	if (frame->rsv)
		return "a reserved bit is set";
	if ((frame->mask != 0) != reader->is_server)
		return reader->is_server ? "a client must mask its frames"
					 : "a server must not mask its frames";
	switch (frame->opcode) {
	case WS_CONTINUATION:
		return reader->in_message ? NULL : "a fragment that continues nothing";
	case WS_TEXT:
	case WS_BINARY:
		return reader->in_message ? "a message begins inside of another" : NULL;
	case WS_CLOSE:
	case WS_PING:
	case WS_PONG:
		return NULL;
	default:
		return "an unknown opcode";
	}
}

static bool is_control(const struct wslay_frame_iocb *frame)
{
	return frame->opcode >= WS_CLOSE;
}

// RFC 6455 7.4: codes that are valid in a close frame.
static bool is_code(int code)
{
	return (code >= 1000 && code <= 1014 && code != 1004 && code != 1005 && code != 1006) ||
	       (code >= 3000 && code <= 4999);
}

static enum ws_event end_close(struct ws_reader *reader, struct ws_item *out)
{
	struct str body = buf_view(&reader->control);
	int code;

	if (body.len == 1)
		return ws_fault(reader, out, WS_PROTOCOL_ERROR, "a close with half a code");
	*out = (struct ws_item){.code = WS_NO_CODE};
	reader->is_over = true;
	if (body.len == 0)
		return WS_GOT_CLOSE;
	code = (uint8_t)body.at[0] << 8 | (uint8_t)body.at[1];
	body = str_skip(body, 2);
	if (!is_code(code))
		return ws_fault(reader, out, WS_PROTOCOL_ERROR, "a close with a bad code");
	if (!text_is_utf8(body))
		return ws_fault(reader, out, WS_BAD_DATA, "a reason that is not UTF-8");
	out->code = code;
	out->body = body;
	return WS_GOT_CLOSE;
}

static enum ws_event end_control(struct ws_reader *reader, enum ws_opcode opcode,
				 struct ws_item *out)
{
	if (opcode == WS_CLOSE)
		return end_close(reader, out);
	*out = (struct ws_item){.body = buf_view(&reader->control)};
	return opcode == WS_PING ? WS_GOT_PING : WS_GOT_PONG;
}

// Checks new bytes as UTF-8; an incomplete sequence waits for the next frame.
static bool check_text(struct ws_reader *reader, bool is_last)
{
	struct str rest = str_skip(buf_view(&reader->message), reader->checked);
	size_t whole = is_last ? rest.len : text_utf8_whole(rest);

	if (whole && !text_is_utf8((struct str){rest.at, whole}))
		return false;
	reader->checked += whole;
	// An incomplete sequence may already be invalid; only one that can still become valid
	// waits.
	rest = str_skip(rest, whole);
	return !rest.len || str_utf8(rest, &(size_t){0}) == STR_UTF8_CUT;
}

static enum ws_event end_message(struct ws_reader *reader, struct ws_item *out)
{
	reader->in_message = false;
	reader->told = true;
	*out = (struct ws_item){.is_text = reader->is_text, .body = buf_view(&reader->message)};
	if (!out->body.at)
		out->body = STR("");
	return WS_MESSAGE;
}

static void codec_ws_forget_sent(struct ws_reader *reader)
{
	if (!reader->told)
		return;
	reader->told = false;
	reader->checked = 0;
	if (reader->message.room > KEPT_MAX) {
		buf_done(&reader->message);
		reader->message = BUF_INIT(reader->max);
	}
	buf_clear(&reader->message);
}

// Handles received bytes of a frame, perhaps none. MORE: it is incomplete, or only a fragment.
static enum ws_event codec_ws_take(struct ws_reader *reader, const struct wslay_frame_iocb *frame,
				   struct ws_item *out)
{
	struct buf *to = is_control(frame) ? &reader->control : &reader->message;

	if (!reader->in_frame) {
		const char *why = judge_head(reader, frame);

		if (why)
			return ws_fault(reader, out, WS_PROTOCOL_ERROR, why);
		if (is_control(frame))
			buf_clear(&reader->control);
		else if (frame->opcode != WS_CONTINUATION)
			reader->is_text = frame->opcode == WS_TEXT;
		if (!is_control(frame) && frame->payload_length > reader->max - to->len)
			return ws_fault(reader, out, WS_TOO_BIG, "the message is too large");
		reader->in_frame = true;
		reader->in_message |= !is_control(frame);
		reader->left = frame->payload_length;
	}
	buf_add(to, frame->data, frame->data_length);
	reader->left -= frame->data_length;
	if (!buf_ok(to))
		return ws_fault(reader, out, WS_TOO_BIG, "there is no memory for the message");
	if (!is_control(frame) && reader->is_text &&
	    !check_text(reader, frame->fin && reader->left == 0))
		return ws_fault(reader, out, WS_BAD_DATA, "a text that is not UTF-8");
	if (reader->left > 0)
		return WS_MORE;
	reader->in_frame = false;
	if (is_control(frame))
		return end_control(reader, frame->opcode, out);
	return frame->fin ? end_message(reader, out) : WS_MORE;
}

enum ws_event ws_read(struct ws_reader *reader, struct str *in, struct ws_item *out)
{
	enum ws_event event = WS_MORE;

	if (reader->is_over)
		return ws_fault(reader, out, WS_PROTOCOL_ERROR, "nothing may follow the end");
	codec_ws_forget_sent(reader);
	reader->in = in;
	while (event == WS_MORE) {
		struct wslay_frame_iocb frame = {0};
		ssize_t n = wslay_frame_recv(reader->frames, &frame);

		if (n == WSLAY_ERR_WANT_READ)
			break;
		if (n < 0) {
			event = ws_fault(reader, out, WS_PROTOCOL_ERROR, "a malformed frame");
			break;
		}
		event = codec_ws_take(reader, &frame, out);
	}
	reader->in = NULL;
	return event;
}
