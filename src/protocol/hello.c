// Three nested state machines, fed byte by byte: records (RFC 8446, 5.1) carry handshake messages,
// of which the first is the hello (4.1.2), which ends with a list of extensions. Everything but
// server_name is counted and skipped: GREASE (RFC 8701) needs no handling, and memory is constant.
// An ambiguous hello is refused, because the server might see another name in it: there is one
// server_name extension with one host name, lengths agree to the byte, and the hello ends where its
// record does.
#include "protocol/hello.h"

#include <string.h>

enum {
	HANDSHAKE = 22,
	CLIENT_HELLO = 1,
	RECORD_MAX = 16 * 1024,
	EXTENSION_SERVER_NAME = 0,
	EXTENSION_ECH = 0xfe0d,
	EXTENSION_ECH_OLD = 0xffce, // ESNI, its earlier name
	HOST_NAME = 0,
};

// A number to read, or bytes to skip, in the order of the hello.
enum state {
	AT_TYPE, // of the message
	AT_LENGTH,
	AT_VERSION,
	IN_RANDOM,
	AT_SESSION,
	IN_SESSION,
	AT_CIPHERS,
	IN_CIPHERS,
	AT_COMPRESSIONS,
	IN_COMPRESSIONS,
	AT_EXTENSIONS,
	AT_EXTENSION,
	AT_EXTENSION_LENGTH,
	IN_EXTENSION,
	AT_END,
	REFUSED,
	REFUSED_SIZE,
	NOT_TLS,
};

// How many bytes the number of a state has; 0: the state skips `need` bytes.
static const uint8_t widths[AT_END + 1] = {
	[AT_TYPE] = 1,	     [AT_LENGTH] = 3,	 [AT_VERSION] = 2,
	[AT_SESSION] = 1,    [AT_CIPHERS] = 2,	 [AT_COMPRESSIONS] = 1,
	[AT_EXTENSIONS] = 2, [AT_EXTENSION] = 2, [AT_EXTENSION_LENGTH] = 2,
};

static void refuse(struct hello *hello, const char *fault)
{
	hello->fault = fault;
	hello->state = REFUSED;
}

static void enter(struct hello *hello, enum state state, uint32_t need)
{
	hello->state = (int)state;
	hello->need = widths[state] ? widths[state] : need;
	hello->value = 0;
}

// Skips `need` bytes, or goes on at once if there are none.
static void hello_pass(struct hello *hello, enum state state, uint32_t need)
{
	if (need)
		enter(hello, state, need);
	else
		enter(hello, state + 1, 0);
}

static uint32_t two(const char *at)
{
	return (uint32_t)(uint8_t)at[0] << 8 | (uint8_t)at[1];
}

// struct { NameType type; opaque name<1..2^16-1>; } list<1..2^16-1>, with exactly one of them.
static void hello_read_names(struct hello *hello)
{
	const char *list = hello->list;
	uint32_t len = hello->list_len;

	if (len < 6 || two(list) != len - 2)
		return refuse(hello, "the list of server names is malformed");
	if (list[2] != HOST_NAME || two(list + 3) != len - 5)
		return refuse(hello, "not exactly one server name");
	hello->kind = hostname_read((struct str){list + 5, len - 5}, hello->name);
	if (hello->kind == HOSTNAME_BAD)
		return refuse(hello, "the server name is not the name of a host");
	hello->has_name = true;
}

static void next_extension(struct hello *hello)
{
	enter(hello, hello->block_left ? AT_EXTENSION : AT_END, 0);
}

static void end_extension(struct hello *hello)
{
	if (hello->extension == EXTENSION_SERVER_NAME)
		hello_read_names(hello);
	if (hello->state != REFUSED)
		next_extension(hello);
}

static void begin_extension(struct hello *hello, uint32_t len)
{
	if (hello->block_left < len)
		return refuse(hello, "an extension is longer than the hello");
	hello->block_left -= len;
	if (hello->extension == EXTENSION_SERVER_NAME) {
		if (hello->has_names)
			return refuse(hello, "server names come twice");
		if (len > sizeof(hello->list))
			return refuse(hello, "the server name is too long");
		hello->has_names = true;
	}
	if (hello->extension == EXTENSION_ECH || hello->extension == EXTENSION_ECH_OLD)
		hello->has_ech = true;
	if (len)
		enter(hello, IN_EXTENSION, len);
	else
		end_extension(hello);
}

static void begin_block(struct hello *hello, uint32_t len)
{
	if (len != hello->message_left)
		return refuse(hello, "the extensions do not end with the hello");
	hello->block_left = len;
	next_extension(hello);
}

// A number is complete: its meaning, and the next state.
static void hello_number(struct hello *hello, uint32_t value)
{
	switch ((enum state)hello->state) {
	case AT_TYPE:
		if (value != CLIENT_HELLO)
			return refuse(hello, "the first message is no hello");
		return enter(hello, AT_LENGTH, 0);
	case AT_LENGTH:
		if (value > HELLO_MAX - 4) {
			hello->state = REFUSED_SIZE;
			return;
		}
		hello->message_left = value;
		return enter(hello, AT_VERSION, 0);
	case AT_VERSION:
		if (value >> 8 != 3)
			return refuse(hello, "the version is none of TLS");
		return enter(hello, IN_RANDOM, 32);
	case AT_SESSION:
		if (value > 32)
			return refuse(hello, "the session is too long");
		return hello_pass(hello, IN_SESSION, value);
	case AT_CIPHERS:
		if (value < 2 || value % 2)
			return refuse(hello, "the list of ciphers is malformed");
		return enter(hello, IN_CIPHERS, value);
	case AT_COMPRESSIONS:
		if (!value)
			return refuse(hello, "there are no compression methods");
		return enter(hello, IN_COMPRESSIONS, value);
	case AT_EXTENSIONS:
		return begin_block(hello, value);
	case AT_EXTENSION:
		if (hello->block_left < 4)
			return refuse(hello, "an extension is cut off");
		hello->block_left -= 4;
		hello->extension = (uint16_t)value;
		return enter(hello, AT_EXTENSION_LENGTH, 0);
	default:
		return begin_extension(hello, value);
	}
}

// The skipped bytes are complete.
static void passed(struct hello *hello)
{
	if (hello->state == IN_EXTENSION)
		return end_extension(hello);
	// A hello without extensions ends after its compression methods.
	enter(hello,
	      hello->state == IN_COMPRESSIONS && !hello->message_left ? AT_END : hello->state + 1,
	      0);
}

// One byte of the message.
static void message_byte(struct hello *hello, uint8_t byte)
{
	bool is_number = widths[hello->state];

	if (hello->state > AT_LENGTH) {
		if (!hello->message_left)
			return refuse(hello, "the hello is shorter than what it holds");
		hello->message_left--;
	}
	if (is_number)
		hello->value = hello->value << 8 | byte;
	else if (hello->state == IN_EXTENSION && hello->extension == EXTENSION_SERVER_NAME)
		hello->list[hello->list_len++] = (char)byte;
	if (--hello->need > 0)
		return;
	if (is_number)
		hello_number(hello, hello->value);
	else
		passed(hello);
	if (hello->state == AT_END && (hello->message_left || hello->record_left))
		refuse(hello, "something follows the hello in its record");
}

// One byte of a record's head: type, version, length.
static void record_byte(struct hello *hello, uint8_t byte)
{
	hello->head[hello->head_len++] = byte;
	switch (hello->head_len) {
	case 1:
		if (byte != HANDSHAKE && hello->seen == 1)
			hello->state = NOT_TLS;
		else if (byte != HANDSHAKE)
			refuse(hello, "a record that is no handshake in the midst of the hello");
		return;
	case 2:
		if (byte != 3)
			refuse(hello, "the version of a record is none of TLS");
		return;
	case 5:
		hello->head_len = 0;
		hello->record_left = (uint32_t)hello->head[3] << 8 | byte;
		if (!hello->record_left || hello->record_left > RECORD_MAX)
			refuse(hello, "the length of a record is out of bounds");
		return;
	default:
		return;
	}
}

static enum hello_verdict hello_verdict_of(const struct hello *hello)
{
	switch (hello->state) {
	case AT_END:
		return HELLO_DONE;
	case REFUSED:
		return HELLO_BAD;
	case REFUSED_SIZE:
		return HELLO_TOO_LARGE;
	case NOT_TLS:
		return HELLO_NOT_TLS;
	default:
		return HELLO_MORE;
	}
}

enum hello_verdict hello_feed(struct hello *hello, struct str piece)
{
	for (size_t i = 0; i < piece.len && hello->state < AT_END; i++) {
		uint8_t byte = (uint8_t)piece.at[i];

		if (!hello->need)
			enter(hello, AT_TYPE, 0);
		if (++hello->seen > HELLO_BYTES_MAX) {
			hello->state = REFUSED_SIZE;
		} else if (!hello->record_left) {
			record_byte(hello, byte);
		} else {
			hello->record_left--;
			message_byte(hello, byte);
		}
	}
	return hello_verdict_of(hello);
}
