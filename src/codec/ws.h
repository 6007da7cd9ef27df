// WebSocket frames, RFC 6455: received frames are checked and joined to messages, sent ones get
// their header. No I/O.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

#define WS_KEY_LEN 24	 // Sec-WebSocket-Key: 16 bytes as base64
#define WS_ACCEPT_LEN 28 // Sec-WebSocket-Accept
#define WS_HEAD_MAX 14	 // header of a frame, mask included
#define WS_CONTROL_MAX 125
#define WS_REASON_MAX 123

enum ws_opcode {
	WS_CONTINUATION = 0,
	WS_TEXT = 1,
	WS_BINARY = 2,
	WS_CLOSE = 8,
	WS_PING = 9,
	WS_PONG = 10,
};

// Close codes. 1005 and 1006 are never sent: no code was received, the connection broke.
enum ws_code {
	WS_NORMAL = 1000,
	WS_GOING_AWAY = 1001,
	WS_PROTOCOL_ERROR = 1002,
	WS_UNSUPPORTED = 1003,
	WS_NO_CODE = 1005,
	WS_ABNORMAL = 1006,
	WS_BAD_DATA = 1007,
	WS_POLICY = 1008,
	WS_TOO_BIG = 1009,
	WS_INTERNAL = 1011,
	WS_TRY_LATER = 1013,
};

bool ws_is_key(struct str key);
void ws_accept(struct str key, char out[WS_ACCEPT_LEN + 1]);

// Writes the header of a frame; `mask` NULL: unmasked, as a server sends. Returns its length.
size_t ws_head(uint8_t out[WS_HEAD_MAX], enum ws_opcode opcode, bool is_final, uint64_t len,
	       const uint8_t mask[4]);
// Masks or unmasks bytes that begin at `offset` of the payload.
void ws_mask(void *bytes, size_t len, const uint8_t mask[4], size_t offset);
// Writes the payload of a close frame: code and reason, truncated between characters. Returns its
// length.
size_t ws_close_body(uint8_t out[WS_CONTROL_MAX], int code, struct str reason);

struct ws_reader;

// `is_server`: frames must be masked; else they must not. A message longer than `max` is a fault.
struct ws_reader *ws_reader_new(bool is_server, size_t max);
void ws_reader_free(struct ws_reader *reader);

enum ws_event { WS_MORE, WS_MESSAGE, WS_GOT_PING, WS_GOT_PONG, WS_GOT_CLOSE, WS_FAULT };

struct ws_item {
	bool is_text; // MESSAGE
	struct str
		body; // of a message, ping, pong; of a close its reason. Valid until the next call
	int code;     // CLOSE: as received, or WS_NO_CODE. FAULT: the code to close with
	const char *fault; // a message for the peer
};

// Consumes from the front of *in until an item is complete. Call it again until it returns MORE,
// because bytes of the next item may have been consumed. MORE: all of *in was consumed. After FAULT
// or CLOSE nothing more is read.
enum ws_event ws_read(struct ws_reader *reader, struct str *in, struct ws_item *out);
// Memory held by the incomplete message.
size_t ws_held(const struct ws_reader *reader);
