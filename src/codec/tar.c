// Writer and reader of tar headers. The reader is fed one block at a time and is used on untrusted
// archives: checksums, numbers, record lengths and names are checked, sparse members are refused.
// The reader keeps pax records of one member at most.
#include "codec/tar.h"

#include <stdio.h>
#include <string.h>

#define OCTAL_SIZE_MAX 077777777777ull
#define OCTAL_ID_MAX 07777777u

struct block {
	char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], sum[8], type, link[100];
	char magic[6], version[2], user[32], group[32], major[8], minor[8], prefix[155], pad[12];
};
_Static_assert(sizeof(struct block) == TAR_BLOCK, "a block is 512 bytes");

// ---------------------------------------------------------------------------------- writing

static void put_octal(char *field, size_t size, uint64_t value)
{
	for (size_t i = size - 1; i-- > 0; value >>= 3)
		field[i] = (char)('0' + (value & 7));
	field[size - 1] = 0;
}

static void put_text(char *field, size_t size, struct str text)
{
	memcpy(field, text.at, text.len < size ? text.len : size);
}

static void tar_seal(struct block *block)
{
	unsigned sum = 0;

	memcpy(block->magic, "ustar", 6);
	memcpy(block->version, "00", 2);
	memset(block->sum, ' ', sizeof(block->sum));
	for (size_t i = 0; i < TAR_BLOCK; i++)
		sum += ((const unsigned char *)block)[i];
	put_octal(block->sum, 7, sum);
}

// "LEN key=value\n", where LEN counts itself.
static void put_record(char *room, size_t *len, const char *key, struct str value)
{
	size_t body = strlen(key) + value.len + 3, total = body + 1;
	char digits[16];

	while ((size_t)snprintf(digits, sizeof(digits), "%zu", total) + body != total)
		total++;
	*len += (size_t)snprintf(room + *len, 64, "%zu %s=", total, key);
	memcpy(room + *len, value.at, value.len);
	*len += value.len;
	room[(*len)++] = '\n';
}

static bool is_utf8(struct str text)
{
	size_t len;

	for (; text.len > 0; text = str_skip(text, len))
		if (str_utf8(text, &len) != STR_UTF8_GOOD)
			return false;
	return true;
}

// The pax records that this header needs, if any.
static size_t put_records(const struct tar_head *head, char *room)
{
	bool long_path = head->path.len > sizeof(((struct block *)0)->name);
	bool long_link = head->target.len > sizeof(((struct block *)0)->link);
	char number[32];
	size_t len = 0;

	if ((long_path && !is_utf8(head->path)) || (long_link && !is_utf8(head->target)))
		put_record(room, &len, "hdrcharset", STR("BINARY"));
	if (long_path)
		put_record(room, &len, "path", head->path);
	if (long_link)
		put_record(room, &len, "linkpath", head->target);
	if (head->size > OCTAL_SIZE_MAX) {
		snprintf(number, sizeof(number), "%llu", (unsigned long long)head->size);
		put_record(room, &len, "size", str_of(number));
	}
	if (head->mtime < 0 || (uint64_t)head->mtime > OCTAL_SIZE_MAX) {
		snprintf(number, sizeof(number), "%lld", (long long)head->mtime);
		put_record(room, &len, "mtime", str_of(number));
	}
	return len;
}

static void put_block(struct block *block, const struct tar_head *head, char type, struct str path,
		      uint64_t size)
{
	memset(block, 0, sizeof(*block));
	put_text(block->name, sizeof(block->name), path);
	put_text(block->link, sizeof(block->link), head->target);
	put_octal(block->mode, sizeof(block->mode), head->mode & 07777);
	put_octal(block->uid, sizeof(block->uid), head->uid <= OCTAL_ID_MAX ? head->uid : 0);
	put_octal(block->gid, sizeof(block->gid), head->gid <= OCTAL_ID_MAX ? head->gid : 0);
	put_octal(block->size, sizeof(block->size), size <= OCTAL_SIZE_MAX ? size : 0);
	put_octal(block->mtime, sizeof(block->mtime),
		  head->mtime >= 0 && (uint64_t)head->mtime <= OCTAL_SIZE_MAX
			  ? (uint64_t)head->mtime
			  : 0);
	block->type = type;
	tar_seal(block);
}

size_t tar_write(const struct tar_head *head, void *room, size_t size)
{
	static const char types[] = {'0', '5', '2', '1'};
	struct block *block = room;
	size_t len, used = 0;

	if (size < TAR_HEAD_MAX || head->path.len > TAR_NAME_MAX ||
	    head->target.len > TAR_NAME_MAX || head->type >= TAR_OTHER)
		return 0;
	len = put_records(head, (char *)room + TAR_BLOCK);
	if (len > 0) {
		size_t pad = tar_padding(len);

		put_block(block, &(struct tar_head){.mode = 0644, .target = STR("")}, 'x',
			  STR("PaxHeader"), len);
		memset((char *)room + TAR_BLOCK + len, 0, pad);
		used = TAR_BLOCK + len + pad;
		block = (struct block *)((char *)room + used);
	}
	put_block(block, head, types[head->type], head->path,
		  head->type == TAR_FILE ? head->size : 0);
	return used + TAR_BLOCK;
}

// ---------------------------------------------------------------------------------- reading

void tar_begin(struct tar_in *in)
{
	memset(in, 0, offsetof(struct tar_in, records));
	in->why = NULL;
}

static enum tar_step tar_bad(struct tar_in *in, const char *why)
{
	in->why = why;
	return TAR_BAD;
}

// Octal with blanks around, or GNU's base 256. False: neither, or negative where that is invalid.
static bool codec_tar_get_number(const char *field, size_t size, int64_t *out)
{
	uint64_t value = 0;
	size_t i = 0;

	if ((unsigned char)field[0] == 0x80 || (unsigned char)field[0] == 0xff) {
		value = (unsigned char)field[0] == 0xff ? UINT64_MAX : 0;
		for (i = size > 9 ? size - 8 : 1; i < size; i++)
			value = value << 8 | (unsigned char)field[i];
		*out = (int64_t)value;
		return true;
	}
	while (i < size && field[i] == ' ')
		i++;
	for (; i < size && field[i] >= '0' && field[i] <= '7'; i++)
		value = value << 3 | (uint64_t)(field[i] - '0');
	*out = (int64_t)value;
	return i == size || field[i] == ' ' || field[i] == 0;
}

static bool has_sum(const struct block *block)
{
	const unsigned char *bytes = (const unsigned char *)block;
	int64_t want, plain = 0, with_sign = 0;

	if (!codec_tar_get_number(block->sum, sizeof(block->sum), &want))
		return false;
	for (size_t i = 0; i < TAR_BLOCK; i++) {
		bool in_sum = i >= offsetof(struct block, sum) && i < offsetof(struct block, type);
		unsigned char c = in_sum ? ' ' : bytes[i];

		plain += c;
		with_sign += (signed char)c;
	}
	return want == plain || want == with_sign;
}

static bool codec_tar_keep(char *room, bool *has, struct str text)
{
	if (text.len > TAR_NAME_MAX || memchr(text.at, 0, text.len))
		return false;
	memcpy(room, text.at, text.len);
	room[text.len] = 0;
	*has = true;
	return true;
}

// Seconds; a fraction is dropped.
static bool get_time(struct str text, int64_t *out)
{
	bool negative = str_starts(text, "-");
	struct str whole;
	uint64_t value;

	if (negative)
		text = str_skip(text, 1);
	str_cut(&text, '.', &whole);
	if (!str_to_u64(whole, 0, 1ull << 40, &value))
		return false;
	*out = negative ? -(int64_t)value : (int64_t)value;
	return true;
}

static bool take_record(struct tar_in *in, struct str key, struct str value)
{
	uint64_t number;

	if (str_is(key, "path"))
		return codec_tar_keep(in->path, &in->has_path, value);
	if (str_is(key, "linkpath"))
		return codec_tar_keep(in->target, &in->has_target, value);
	if (str_is(key, "size")) {
		in->has_size = true;
		return str_to_u64(value, 0, INT64_MAX, &in->size);
	}
	if (str_is(key, "mtime")) {
		in->has_mtime = true;
		return get_time(value, &in->mtime);
	}
	if (str_is(key, "uid") || str_is(key, "gid")) {
		bool is_uid = str_is(key, "uid");

		if (!str_to_u64(value, 0, UINT32_MAX, &number))
			return false;
		*(is_uid ? &in->has_uid : &in->has_gid) = true;
		*(is_uid ? &in->uid : &in->gid) = (uint32_t)number;
		return true;
	}
	return !str_starts(key, "GNU.sparse"); // its content would not be the file's
}

static bool take_records(struct tar_in *in)
{
	struct str rest = {in->records, in->records_len};

	while (rest.len > 0) {
		struct str line = rest, count, key;
		uint64_t len;

		if (!str_cut(&line, ' ', &count) || !str_to_u64(count, 5, rest.len, &len) ||
		    len <= count.len + 1 || rest.at[len - 1] != '\n')
			return false;
		line = (struct str){rest.at + count.len + 1, (size_t)len - count.len - 2};
		if (!memchr(line.at, '=', line.len) || !str_cut(&line, '=', &key))
			return false;
		if (!line.at)
			line = STR("");
		if (!take_record(in, key, line))
			return false;
		rest = str_skip(rest, (size_t)len);
	}
	return true;
}

static enum tar_step take_more(struct tar_in *in, const void *block)
{
	size_t n = in->left < TAR_BLOCK ? (size_t)in->left : TAR_BLOCK;
	struct str name = {in->records, 0};

	if (in->kind != 'g') {
		memcpy(in->records + in->records_len, block, n);
		in->records_len += n;
	}
	in->left -= n;
	if (in->left > 0 || in->kind == 'g')
		return TAR_MORE;
	if (in->kind == 'x')
		return take_records(in) ? TAR_MORE : tar_bad(in, "a pax record is malformed");
	name.len = strnlen(in->records, in->records_len);
	if (!(in->kind == 'L' ? codec_tar_keep(in->path, &in->has_path, name)
			      : codec_tar_keep(in->target, &in->has_target, name)))
		return tar_bad(in, "a name is too long");
	return TAR_MORE;
}

static enum tar_type codec_tar_type_of(char type)
{
	switch (type) {
	case 0:
	case '0':
	case '7':
		return TAR_FILE;
	case '5':
		return TAR_DIRECTORY;
	case '2':
		return TAR_SYMLINK;
	case '1':
		return TAR_HARDLINK;
	default:
		return TAR_OTHER;
	}
}

static void take_names(struct tar_in *in, const struct block *block)
{
	size_t prefix = strnlen(block->prefix, sizeof(block->prefix));
	size_t len = 0;

	if (!in->has_path) {
		if (memcmp(block->magic, "ustar", 6) == 0 && prefix > 0) {
			memcpy(in->path, block->prefix, prefix);
			in->path[prefix] = '/';
			len = prefix + 1;
		}
		memcpy(in->path + len, block->name, sizeof(block->name));
		in->path[len + strnlen(block->name, sizeof(block->name))] = 0;
	}
	if (!in->has_target) {
		memcpy(in->target, block->link, sizeof(block->link));
		in->target[strnlen(block->link, sizeof(block->link))] = 0;
	}
}

static enum tar_step codec_tar_take_head(struct tar_in *in, const struct block *block,
					 struct tar_head *out)
{
	int64_t mode, uid, gid, mtime, size;

	if (!codec_tar_get_number(block->mode, sizeof(block->mode), &mode) ||
	    !codec_tar_get_number(block->uid, sizeof(block->uid), &uid) ||
	    !codec_tar_get_number(block->gid, sizeof(block->gid), &gid) ||
	    !codec_tar_get_number(block->mtime, sizeof(block->mtime), &mtime) ||
	    !codec_tar_get_number(block->size, sizeof(block->size), &size) || size < 0)
		return tar_bad(in, "a number is malformed");
	if (block->type == 'S')
		return tar_bad(in, "sparse members are not supported");
	if (strchr("xgLK", block->type) && block->type) {
		if (block->type != 'g' && (uint64_t)size > TAR_PAX_MAX)
			return tar_bad(in, "the records of a member are too long");
		in->kind = block->type;
		in->left = (uint64_t)size;
		in->records_len = 0;
		return TAR_MORE;
	}
	take_names(in, block);
	*out = (struct tar_head){
		.type = codec_tar_type_of(block->type),
		.path = str_of(in->path),
		.target = str_of(in->target),
		.size = in->has_size ? in->size : (uint64_t)size,
		.mode = (uint32_t)mode & 07777,
		.uid = in->has_uid ? in->uid : (uint32_t)uid,
		.gid = in->has_gid ? in->gid : (uint32_t)gid,
		.mtime = in->has_mtime ? in->mtime : mtime,
	};
	// Links and directories have no content, whatever their size field says.
	if (out->type == TAR_DIRECTORY || out->type == TAR_SYMLINK || out->type == TAR_HARDLINK)
		out->size = 0;
	if (out->type == TAR_FILE && str_ends(out->path, "/"))
		out->type = TAR_DIRECTORY; // the convention before POSIX
	in->has_path = in->has_target = in->has_size = false;
	in->has_mtime = in->has_uid = in->has_gid = false;
	return TAR_ENTRY;
}

enum tar_step tar_feed(struct tar_in *in, const void *block, struct tar_head *out)
{
	static const char zeroes[TAR_BLOCK];

	if (in->left > 0)
		return take_more(in, block);
	if (memcmp(block, zeroes, TAR_BLOCK) == 0)
		return TAR_END;
	if (!has_sum(block))
		return tar_bad(in, "it is not a tar archive, or it is damaged");
	return codec_tar_take_head(in, block, out);
}
