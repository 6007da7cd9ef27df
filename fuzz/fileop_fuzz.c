// Requests to a hand and its answers, which are hostile: what decodes encodes to the same bytes.
// The first byte chooses which.
#include "protocol/fileop.h"

#include "fuzz.h"

static const char *globs[FILEOP_GLOBS_MAX + 1];
static uint8_t room[FILEOP_SIZE_MAX];

static void ask(const uint8_t *bytes, size_t len)
{
	struct fileop_request ask = {.globs = globs};

	if (!fileop_decode_request(bytes, len, &ask))
		return;
	MUST(ask.verb < FILEOP_VERB_COUNT && !ask.globs[ask.includes + ask.excludes]);
	MUST(strlen(ask.path.at) == ask.path.len && ask.path.len <= FILEOP_PATH_MAX);
	MUST(fileop_encode_request(&ask, room, sizeof(room)) == len &&
	     memcmp(room, bytes, len) == 0);
	MUST(len == 0 || fileop_encode_request(&ask, room, len - 1) == 0);
}

// Items: each is put as it was got, and so are all of them.
static void items(const struct fileop_reply *say)
{
	struct unpack in;
	struct pack out;
	union {
		struct fileop_entry entry;
		struct fileop_match match;
		struct fileop_event event;
		struct fileop_port port;
		struct fileop_process process;
	} item;

	unpack_init(&in, say->rest.at, say->rest.len);
	pack_init(&out, room, sizeof(room));
	if (say->kind == FILEOP_ENTRIES)
		while (fileop_get_entry(&in, &item.entry))
			fileop_put_entry(&out, &item.entry);
	if (say->kind == FILEOP_MATCHES)
		while (fileop_get_match(&in, &item.match))
			fileop_put_match(&out, &item.match);
	if (say->kind == FILEOP_EVENTS)
		while (fileop_get_event(&in, &item.event))
			fileop_put_event(&out, &item.event);
	if (say->kind == FILEOP_PORTS_ARE)
		while (fileop_get_port(&in, &item.port))
			fileop_put_port(&out, &item.port);
	if (say->kind == FILEOP_PROCESSES_ARE)
		while (fileop_get_process(&in, &item.process))
			fileop_put_process(&out, &item.process);
	if (in.failed)
		return;
	MUST(!out.failed && out.len == say->rest.len - in.left);
	MUST(memcmp(room, say->rest.at, out.len) == 0);
}

static void say(const uint8_t *bytes, size_t len)
{
	struct fileop_reply say;
	size_t head;

	if (!fileop_decode_reply(bytes, len, &say))
		return;
	MUST(say.kind < FILEOP_KIND_COUNT && fileop_fds(&say) <= 1);
	head = fileop_encode_reply(&say, room, sizeof(room));
	MUST(head > 0 && head + say.rest.len == len && memcmp(room, bytes, head) == 0);
	if (say.kind >= FILEOP_ENTRIES)
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
