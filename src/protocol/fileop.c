// pid 1's program links this file: no allocation, nothing beyond libc. Every value is checked
// against its range on arrival: a decoded message can be used without another check.
#include "protocol/fileop.h"

#define TEXT_MAX 4096
#define ERRNO_MAX 4095
#define NUMBER_MAX (1ull << 62)
#define TIME_MAX (1ull << 60) // microseconds: past any calendar
#define SIGNAL_MAX 64

static uint64_t fileop_ranged(struct unpack *in, uint64_t value, uint64_t min, uint64_t max)
{
	if (value >= min && value <= max)
		return value;
	in->failed = true;
	return 0;
}

static uint64_t get_number(struct unpack *in)
{
	return fileop_ranged(in, unpack_u64(in), 0, NUMBER_MAX);
}

static void put_time(struct pack *pack, int64_t us)
{
	pack_u64(pack, (uint64_t)us + TIME_MAX);
}

static int64_t get_time(struct unpack *in)
{
	return (int64_t)(fileop_ranged(in, unpack_u64(in), 0, 2 * TIME_MAX) - TIME_MAX);
}

// --------------------------------------------------------------------------------- requests

static void fileop_put_globs(struct pack *pack, const struct fileop_request *ask)
{
	pack_u32(pack, ask->includes);
	pack_u32(pack, ask->excludes);
	if (ask->includes > FILEOP_GLOBS_MAX || ask->excludes > FILEOP_GLOBS_MAX)
		pack->failed = true;
	for (uint32_t i = 0; i < ask->includes + ask->excludes && !pack->failed; i++)
		pack_text(pack, str_of(ask->globs[i]));
}

size_t fileop_encode_request(const struct fileop_request *ask, void *room, size_t size)
{
	struct pack pack;

	pack_init(&pack, room, size < FILEOP_SIZE_MAX ? size : FILEOP_SIZE_MAX);
	pack_u8(&pack, (uint8_t)ask->verb);
	pack_u32(&pack, ask->flags);
	pack_u32(&pack, ask->mode);
	pack_u32(&pack, ask->types);
	pack_u32(&pack, ask->number);
	pack_u32(&pack, ask->pid);
	pack_u32(&pack, ask->depth);
	pack_u64(&pack, ask->limit);
	pack_u64(&pack, ask->min);
	pack_u64(&pack, ask->max);
	pack_u64(&pack, ask->since);
	pack_text(&pack, ask->base);
	pack_text(&pack, ask->path);
	pack_text(&pack, ask->other);
	pack_text(&pack, ask->text);
	fileop_put_globs(&pack, ask);
	if (pack.failed || ask->bytes.len > pack.room - pack.len)
		return 0;
	if (ask->bytes.len)
		memcpy(pack.at + pack.len, ask->bytes.at, ask->bytes.len);
	return pack.len + ask->bytes.len;
}

static void get_globs(struct unpack *in, struct fileop_request *ask)
{
	uint32_t count;

	ask->includes = (uint32_t)fileop_ranged(in, unpack_u32(in), 0, FILEOP_GLOBS_MAX);
	ask->excludes = (uint32_t)fileop_ranged(in, unpack_u32(in), 0,
						FILEOP_GLOBS_MAX - ask->includes);
	count = ask->includes + ask->excludes;
	for (uint32_t i = 0; i < count && !in->failed; i++)
		ask->globs[i] = unpack_text(in, TEXT_MAX).at;
	if (in->failed)
		count = 0;
	ask->globs[count] = NULL;
}

static uint32_t get_mode(struct unpack *in)
{
	uint32_t mode = unpack_u32(in);

	if (mode > 07777 && mode != FILEOP_KEEP_MODE)
		in->failed = true;
	return mode;
}

bool fileop_decode_request(const void *bytes, size_t len, struct fileop_request *ask)
{
	struct fileop_request got = {.globs = ask->globs};
	struct unpack in;

	if (len > FILEOP_SIZE_MAX)
		return false;
	unpack_init(&in, bytes, len);
	got.verb = (enum fileop_verb)fileop_ranged(&in, unpack_u8(&in), 0, FILEOP_VERB_COUNT - 1);
	got.flags = (uint32_t)fileop_ranged(&in, unpack_u32(&in), 0, FILEOP_FLAGS);
	got.mode = get_mode(&in);
	got.types = (uint32_t)fileop_ranged(&in, unpack_u32(&in), 0, (1u << FILEOP_TYPE_COUNT) - 1);
	got.number = (uint32_t)fileop_ranged(&in, unpack_u32(&in), 0,
					     got.verb == FILEOP_SWEEP ? SIGNAL_MAX : UINT16_MAX);
	got.pid = (uint32_t)fileop_ranged(&in, unpack_u32(&in), 0, INT32_MAX);
	got.depth = unpack_u32(&in);
	got.limit = get_number(&in);
	got.min = get_number(&in);
	got.max = get_number(&in);
	got.since = get_number(&in);
	got.base = unpack_text(&in, FILEOP_PATH_MAX);
	got.path = unpack_text(&in, FILEOP_PATH_MAX);
	got.other = unpack_text(&in, FILEOP_PATH_MAX);
	got.text = unpack_text(&in, TEXT_MAX);
	get_globs(&in, &got);
	if (in.failed || (got.verb == FILEOP_WRITE ? in.left > FILEOP_SMALL : in.left > 0))
		return false;
	got.bytes = (struct str){(const char *)in.at, in.left};
	*ask = got;
	return true;
}

// ---------------------------------------------------------------------------------- answers

static void put_stat(struct pack *pack, const struct fileop_stat *stat)
{
	pack_u8(pack, (uint8_t)stat->type);
	pack_u16(pack, (uint16_t)stat->mode);
	pack_u32(pack, stat->uid);
	pack_u32(pack, stat->gid);
	pack_u32(pack, stat->links);
	pack_u64(pack, stat->inode);
	pack_u64(pack, stat->size);
	put_time(pack, stat->mtime_us);
	put_time(pack, stat->ctime_us);
}

static void get_stat(struct unpack *in, struct fileop_stat *stat)
{
	stat->type = (enum fileop_type)fileop_ranged(in, unpack_u8(in), 0, FILEOP_TYPE_COUNT - 1);
	stat->mode = (uint32_t)fileop_ranged(in, unpack_u16(in), 0, 07777);
	stat->uid = unpack_u32(in);
	stat->gid = unpack_u32(in);
	stat->links = unpack_u32(in);
	stat->inode = unpack_u64(in);
	stat->size = fileop_ranged(in, unpack_u64(in), 0, INT64_MAX);
	stat->mtime_us = get_time(in);
	stat->ctime_us = get_time(in);
}

static bool has_items(enum fileop_kind kind)
{
	return kind >= FILEOP_ENTRIES;
}

static void fileop_put_done(struct pack *pack, const struct fileop_reply *say)
{
	pack_text(pack, say->text);
	pack_u64(pack, say->count);
	pack_u64(pack, say->bytes);
	pack_u64(pack, say->skipped);
	pack_u8(pack, say->more);
	pack_u64(pack, say->space);
	pack_u64(pack, say->space_free);
	pack_u64(pack, say->inodes);
	pack_u64(pack, say->inodes_free);
}

size_t fileop_encode_reply(const struct fileop_reply *say, void *room, size_t size)
{
	struct pack pack;

	pack_init(&pack, room, size < FILEOP_SIZE_MAX ? size : FILEOP_SIZE_MAX);
	pack_u8(&pack, (uint8_t)say->kind);
	if (say->kind == FILEOP_FAILED) {
		pack_u8(&pack, (uint8_t)say->why);
		pack_u32(&pack, (uint32_t)say->errnum);
		pack_text(&pack, say->text);
	} else if (!has_items(say->kind)) {
		put_stat(&pack, &say->stat);
		if (say->kind == FILEOP_DONE)
			fileop_put_done(&pack, say);
	}
	return pack.failed ? 0 : pack.len;
}

static void fileop_get_done(struct unpack *in, struct fileop_reply *say)
{
	say->text = unpack_text(in, TEXT_MAX);
	say->count = get_number(in);
	say->bytes = get_number(in);
	say->skipped = get_number(in);
	say->more = fileop_ranged(in, unpack_u8(in), 0, 1);
	say->space = get_number(in);
	say->space_free = get_number(in);
	say->inodes = get_number(in);
	say->inodes_free = get_number(in);
}

bool fileop_decode_reply(const void *bytes, size_t len, struct fileop_reply *say)
{
	struct fileop_reply got = {0};
	struct unpack in;

	if (len > FILEOP_SIZE_MAX)
		return false;
	unpack_init(&in, bytes, len);
	got.kind = (enum fileop_kind)fileop_ranged(&in, unpack_u8(&in), 0, FILEOP_KIND_COUNT - 1);
	if (got.kind == FILEOP_FAILED) {
		got.why = (enum fileop_why)fileop_ranged(&in, unpack_u8(&in), 0,
							 FILEOP_WHY_COUNT - 1);
		got.errnum = (int)fileop_ranged(&in, unpack_u32(&in), 0, ERRNO_MAX);
		got.text = unpack_text(&in, TEXT_MAX);
	} else if (!has_items(got.kind)) {
		get_stat(&in, &got.stat);
		if (got.kind == FILEOP_DONE)
			fileop_get_done(&in, &got);
	}
	if (in.failed || (in.left > 0 && got.kind != FILEOP_BYTES && !has_items(got.kind)))
		return false;
	if (got.kind == FILEOP_BYTES && in.left > FILEOP_SMALL)
		return false;
	got.rest = (struct str){(const char *)in.at, in.left};
	*say = got;
	return true;
}

int fileop_fds(const struct fileop_reply *say)
{
	return say->kind == FILEOP_OPENED ? 1 : 0;
}

// ------------------------------------------------------------------------------------ items

void fileop_put_entry(struct pack *pack, const struct fileop_entry *entry)
{
	put_stat(pack, &entry->stat);
	pack_text(pack, entry->path);
	pack_text(pack, entry->target);
}

bool fileop_get_entry(struct unpack *in, struct fileop_entry *out)
{
	if (in->left == 0)
		return false;
	get_stat(in, &out->stat);
	out->path = unpack_text(in, FILEOP_PATH_MAX);
	out->target = unpack_text(in, FILEOP_PATH_MAX);
	if (out->path.len == 0)
		in->failed = true;
	return !in->failed;
}

void fileop_put_match(struct pack *pack, const struct fileop_match *match)
{
	pack_text(pack, match->path);
	pack_u64(pack, match->line);
	pack_u32(pack, match->column);
	pack_text(pack, match->text);
}

bool fileop_get_match(struct unpack *in, struct fileop_match *out)
{
	if (in->left == 0)
		return false;
	out->path = unpack_text(in, FILEOP_PATH_MAX);
	out->line = get_number(in);
	out->column = unpack_u32(in);
	out->text = unpack_text(in, FILEOP_LINE_MAX);
	return !in->failed;
}

void fileop_put_event(struct pack *pack, const struct fileop_event *event)
{
	pack_u8(pack, (uint8_t)event->type);
	pack_u8(pack, event->is_directory);
	pack_text(pack, event->path);
}

bool fileop_get_event(struct unpack *in, struct fileop_event *out)
{
	if (in->left == 0)
		return false;
	out->type = (enum fileop_event_type)fileop_ranged(in, unpack_u8(in), 0,
							  FILEOP_EVENT_COUNT - 1);
	out->is_directory = fileop_ranged(in, unpack_u8(in), 0, 1);
	out->path = unpack_text(in, FILEOP_PATH_MAX);
	return !in->failed;
}

void fileop_put_port(struct pack *pack, const struct fileop_port *port)
{
	pack_u16(pack, port->port);
	pack_u8(pack, port->any);
}

bool fileop_get_port(struct unpack *in, struct fileop_port *out)
{
	if (in->left == 0)
		return false;
	out->port = (uint16_t)fileop_ranged(in, unpack_u16(in), 1, UINT16_MAX);
	out->any = fileop_ranged(in, unpack_u8(in), 0, 1);
	return !in->failed;
}
