// Requests to a hand and its answers, which are hostile: what decodes encodes to the same bytes.
// The first byte chooses which.
#include "model/reach.h"

#include "fuzz.h"

static const char *globs[REACH_GLOBS_MAX + 1];
static uint8_t room[REACH_SIZE_MAX];

static void ask(const uint8_t *bytes, size_t len)
{
	struct reach_ask ask = {.globs = globs};

	if (!reach_decode_ask(bytes, len, &ask))
		return;
	MUST(ask.verb < REACH_VERB_COUNT && !ask.globs[ask.includes + ask.excludes]);
	MUST(strlen(ask.path.at) == ask.path.len && ask.path.len <= REACH_PATH_MAX);
	MUST(reach_encode_ask(&ask, room, sizeof(room)) == len && memcmp(room, bytes, len) == 0);
	MUST(len == 0 || reach_encode_ask(&ask, room, len - 1) == 0);
}

// Items: each is put as it was got, and so are all of them.
static void items(const struct reach_say *say)
{
	struct unpack in;
	struct pack out;
	union {
		struct reach_entry entry;
		struct reach_match match;
		struct reach_event event;
		struct reach_port port;
	} item;

	unpack_init(&in, say->rest.at, say->rest.len);
	pack_init(&out, room, sizeof(room));
	if (say->kind == REACH_ENTRIES)
		while (reach_get_entry(&in, &item.entry))
			reach_put_entry(&out, &item.entry);
	if (say->kind == REACH_MATCHES)
		while (reach_get_match(&in, &item.match))
			reach_put_match(&out, &item.match);
	if (say->kind == REACH_EVENTS)
		while (reach_get_event(&in, &item.event))
			reach_put_event(&out, &item.event);
	if (say->kind == REACH_PORTS_ARE)
		while (reach_get_port(&in, &item.port))
			reach_put_port(&out, &item.port);
	if (in.failed)
		return;
	MUST(!out.failed && out.len == say->rest.len - in.left);
	MUST(memcmp(room, say->rest.at, out.len) == 0);
}

static void say(const uint8_t *bytes, size_t len)
{
	struct reach_say say;
	size_t head;

	if (!reach_decode_say(bytes, len, &say))
		return;
	MUST(say.kind < REACH_KIND_COUNT && reach_fds(&say) <= 1);
	head = reach_encode_say(&say, room, sizeof(room));
	MUST(head > 0 && head + say.rest.len == len && memcmp(room, bytes, head) == 0);
	if (say.kind >= REACH_ENTRIES)
		items(&say);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	if (len == 0)
		return 0;
	if (bytes[0] & 1)
		ask(bytes + 1, len - 1);
	else
		say(bytes + 1, len - 1);
	return 0;
}
