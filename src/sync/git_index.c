// Reader of git's index. A tracked file travels also when an ignore rule names it, so that the
// index has to be read. Hashes have 20 bytes, in a repository of SHA-256 32: the file does not
// tell, so that both are tried; the names must then be valid and in order.
#include "sync/git_index.h"

#include <string.h>

#include "base/mem.h"

#define STATS 40 // times, device, inode, mode, owner, size
#define MODE_AT 24
#define MODE_DIRECTORY 0040000
#define MODE_TYPE 0170000
#define FLAG_EXTENDED 0x4000

struct git_index {
	const unsigned char *at, *end;
	uint32_t version, hash_len;
	char name[FILE_LIST_PATH_MAX + 2]; // the last one: a name of version 4 builds on it
	size_t name_len;
};

static uint32_t git_index_u32(const unsigned char *at)
{
	return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

// Version 4: how many bytes of the last name to drop, then the rest.
static bool git_index_prefix(struct git_index *index)
{
	uint64_t drop = 0;
	unsigned char c;

	if (index->at == index->end)
		return false;
	c = *index->at++;
	drop = c & 127;
	while (c & 128) {
		if (index->at == index->end || drop > FILE_LIST_PATH_MAX)
			return false;
		c = *index->at++;
		drop = ((drop + 1) << 7) + (c & 127);
	}
	if (drop > index->name_len)
		return false;
	index->name_len -= (size_t)drop;
	return true;
}

static bool git_index_entry(struct git_index *index, struct file_list *out)
{
	const unsigned char *start = index->at, *nul;
	size_t head = STATS + index->hash_len + 2, len;
	struct str name;
	uint32_t mode;

	if ((size_t)(index->end - start) < head + 2)
		return false;
	mode = git_index_u32(start + MODE_AT);
	if ((start[head - 2] << 8 | start[head - 1]) & FLAG_EXTENDED)
		head += 2;
	index->at = start + head;
	if (index->version < 4)
		index->name_len = 0;
	else if (!git_index_prefix(index))
		return false;
	nul = memchr(index->at, 0, (size_t)(index->end - index->at));
	len = nul ? (size_t)(nul - index->at) : 0;
	if (!nul || index->name_len + len > FILE_LIST_PATH_MAX)
		return false;
	memcpy(index->name + index->name_len, index->at, len);
	index->name_len += len;
	name = (struct str){index->name, index->name_len};
	index->at = nul + 1;
	if (index->version < 4) {
		size_t whole = (head + len + 8) & ~(size_t)7;

		if (whole > (size_t)(index->end - start))
			return false;
		index->at = start + whole;
	}
	// A sparse index has directories that are not on the disk.
	if ((mode & MODE_TYPE) == MODE_DIRECTORY)
		return str_ends(name, "/");
	if (!file_list_is_path(name))
		return false;
	if (out->count && strlen(out->at[out->count - 1].path) == name.len &&
	    !memcmp(out->at[out->count - 1].path, name.at, name.len))
		return true; // another stage of an unmerged path
	file_list_add(out, name);
	return out->count < 2 ||
	       strcmp(out->at[out->count - 2].path, out->at[out->count - 1].path) < 0;
}

static bool git_index_entries(struct git_index *index, uint32_t count, struct file_list *out)
{
	for (uint32_t i = 0; i < count; i++)
		if (!git_index_entry(index, out))
			return false;
	return true;
}

// False: an extension changes the meaning of the entries, which are in another file.
static bool git_index_is_whole(const struct git_index *index)
{
	const unsigned char *at = index->at;

	while ((size_t)(index->end - at) >= 8) {
		uint32_t len = git_index_u32(at + 4);

		if (!memcmp(at, "link", 4))
			return false;
		if (len > (size_t)(index->end - at) - 8)
			break;
		at += 8 + len;
	}
	return true;
}

fallible git_index_read(struct str bytes, struct file_list *out)
{
	static const uint32_t lengths[] = {20, 32};
	auto_free struct git_index *index = mem_new_of(struct git_index);
	const unsigned char *at = (const unsigned char *)bytes.at;

	for (size_t i = 0; i < 2; i++) {
		if (bytes.len < 12 + lengths[i] || memcmp(at, "DIRC", 4) != 0)
			break;
		*index = (struct git_index){
			.at = at + 12,
			.end = at + bytes.len - lengths[i],
			.version = git_index_u32(at + 4),
			.hash_len = lengths[i],
		};
		if (index->version < 2 || index->version > 4)
			break;
		if (git_index_entries(index, git_index_u32(at + 8), out)) {
			if (git_index_is_whole(index))
				return OK;
			file_list_done(out);
			return err_hint(err_new(NOT_OFFERED, "split_index",
						"the index of the repository is split"),
					"git update-index --no-split-index");
		}
		file_list_done(out);
	}
	return err_new(INVALID, "bad_index", "the index of the repository cannot be read");
}
