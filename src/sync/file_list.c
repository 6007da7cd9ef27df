// Manifests, and the text in which the server keeps them: fields that end with a NUL, in a fixed
// order. The reader checks every path, the order and the counts.
#include "sync/file_list.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define MAGIC "cove-sync 2"
#define MAGIC_OLD "cove-sync 1" // without stamps and the commit

bool file_list_is_path(struct str path)
{
	struct str rest = path, part;

	if (!path.len || path.len > FILE_LIST_PATH_MAX || memchr(path.at, 0, path.len))
		return false;
	while (str_cut(&rest, '/', &part))
		if (!part.len || part.len > FILE_LIST_NAME_MAX || str_is(part, ".") ||
		    str_is(part, ".."))
			return false;
	return path.at[path.len - 1] != '/';
}

bool file_list_is_git(struct str path)
{
	struct str part;

	while (str_cut(&path, '/', &part))
		if (str_eq_nocase(part, STR(".git")))
			return true;
	return false;
}

struct listed_file *file_list_add(struct file_list *manifest, struct str path)
{
	struct listed_file *file;

	if (manifest->count == manifest->room) {
		manifest->room = manifest->room ? 2 * manifest->room : 256;
		manifest->at = mem_grow(manifest->at, manifest->room, sizeof(*manifest->at));
	}
	file = &manifest->at[manifest->count++];
	*file = (struct listed_file){.path = mem_dup(path.at, path.len),
				     .content = FILE_LIST_NO_CONTENT};
	return file;
}

static int file_list_order(const void *a, const void *b)
{
	const struct listed_file *one = a, *other = b;

	return strcmp(one->path, other->path);
}

void file_list_sort(struct file_list *manifest)
{
	if (manifest->count)
		qsort(manifest->at, manifest->count, sizeof(*manifest->at), file_list_order);
}

size_t file_list_from(const struct file_list *manifest, const char *path)
{
	size_t low = 0, high = manifest->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (strcmp(manifest->at[middle].path, path) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

const struct listed_file *file_list_find(const struct file_list *manifest, const char *path)
{
	size_t at = file_list_from(manifest, path);

	return at < manifest->count && !strcmp(manifest->at[at].path, path) ? &manifest->at[at]
									    : NULL;
}

bool file_list_has_beneath(const struct file_list *manifest, const char *directory)
{
	auto_free char *prefix = mem_fmt("%s/", directory);
	size_t at = file_list_from(manifest, prefix);

	return at < manifest->count && str_starts(str_of(manifest->at[at].path), prefix);
}

bool file_list_same(const struct listed_file *a, const struct listed_file *b)
{
	if (!a || !b)
		return a == b;
	return a->is_link == b->is_link && a->mode == b->mode && a->size == b->size &&
	       !strcmp(a->hash, b->hash);
}

// Each step is a bijection: files that differ in one number differ in the stamp.
static uint64_t file_stamp_mix(uint64_t sum, uint64_t number)
{
	sum = (sum ^ number) * 0x9e3779b97f4a7c15u;
	sum = (sum ^ sum >> 32) * 0xd6e8feb86659fd93u;
	return sum ^ sum >> 32;
}

uint64_t file_stamp(const struct file_times *times)
{
	uint64_t sum = file_stamp_mix(1, times->inode);

	sum = file_stamp_mix(sum, times->size);
	sum = file_stamp_mix(sum, (uint64_t)times->mtime);
	sum = file_stamp_mix(sum, (uint64_t)times->ctime);
	sum = file_stamp_mix(sum, times->mode);
	return sum ? sum : 1;
}

void file_list_done(struct file_list *manifest)
{
	for (size_t i = 0; i < manifest->count; i++)
		free(manifest->at[i].path);
	free(manifest->at);
	*manifest = (struct file_list){0};
}

void sync_state_done(struct sync_state *state)
{
	free(state->machine);
	free(state->worktree);
	free(state->commit);
	file_list_done(&state->base);
	file_list_done(&state->pending);
	*state = (struct sync_state){0};
}

static void file_list_put_field(struct buf *out, const char *text)
{
	buf_add(out, text, strlen(text) + 1);
}

static void file_list_put(struct buf *out, bool is_set, const struct file_list *manifest)
{
	if (!is_set) {
		file_list_put_field(out, "-");
		return;
	}
	buf_fmt(out, "%zu", manifest->count);
	buf_char(out, 0);
	for (size_t i = 0; i < manifest->count; i++) {
		const struct listed_file *file = &manifest->at[i];

		buf_fmt(out, "%c %u %llu %s", file->is_link ? 'l' : 'f', file->mode,
			(unsigned long long)file->size, file->hash);
		for (int side = 0; side < FILE_SIDES; side++)
			buf_fmt(out, " %llu", (unsigned long long)file->stamps[side]);
		buf_char(out, ' ');
		file_list_put_field(out, file->path);
	}
}

void sync_state_write(const struct sync_state *state, struct buf *out)
{
	file_list_put_field(out, MAGIC);
	file_list_put_field(out, state->machine);
	file_list_put_field(out, state->worktree);
	file_list_put(out, state->has_base, &state->base);
	file_list_put(out, state->is_pending, &state->pending);
	file_list_put_field(out, state->commit ? state->commit : "");
}

static bool is_hash(struct str text)
{
	for (size_t i = 0; i < text.len; i++)
		if ((text.at[i] < '0' || text.at[i] > '9') &&
		    (text.at[i] < 'a' || text.at[i] > 'f'))
			return false;
	return text.len == SHA256_HEX;
}

static bool file_list_read_stamps(struct str *line, uint64_t stamps[FILE_SIDES])
{
	struct str text;

	for (int side = 0; side < FILE_SIDES; side++)
		if (!str_cut(line, ' ', &text) || !str_to_u64(text, 0, UINT64_MAX, &stamps[side]))
			return false;
	return true;
}

static bool file_list_read_file(struct str line, bool is_old, struct file_list *out)
{
	uint64_t stamps[FILE_SIDES] = {0};
	struct str type, mode, size, hash;
	struct listed_file *file;
	uint64_t bits, bytes;

	if (!str_cut(&line, ' ', &type) || !str_cut(&line, ' ', &mode) ||
	    !str_cut(&line, ' ', &size) || !str_cut(&line, ' ', &hash) ||
	    (!is_old && !file_list_read_stamps(&line, stamps)) || !line.at ||
	    !str_to_u64(mode, 0, 0777, &bits) || !str_to_u64(size, 0, INT64_MAX, &bytes) ||
	    !is_hash(hash) || !file_list_is_path(line) ||
	    (!str_is(type, "f") && !str_is(type, "l")))
		return false;
	file = file_list_add(out, line);
	file->is_link = *type.at == 'l';
	file->mode = (unsigned)bits;
	file->size = bytes;
	memcpy(file->hash, hash.at, SHA256_HEX);
	memcpy(file->stamps, stamps, sizeof(stamps));
	return out->count < 2 || file_list_order(file - 1, file) < 0;
}

static bool file_list_read(struct str *rest, bool is_old, bool *is_set, struct file_list *out)
{
	uint64_t count;
	struct str line;

	if (!str_cut(rest, 0, &line))
		return false;
	*is_set = !str_is(line, "-");
	if (!*is_set)
		return true;
	if (!str_to_u64(line, 0, FILE_LIST_FILES_MAX, &count))
		return false;
	for (uint64_t i = 0; i < count; i++)
		if (!str_cut(rest, 0, &line) || !file_list_read_file(line, is_old, out))
			return false;
	return true;
}

static bool sync_state_parse(struct str rest, struct sync_state *out)
{
	struct str magic, machine, worktree, commit;
	bool is_old;

	if (!rest.len || rest.at[rest.len - 1] || !str_cut(&rest, 0, &magic) ||
	    !str_cut(&rest, 0, &machine) || !str_cut(&rest, 0, &worktree))
		return false;
	is_old = str_is(magic, MAGIC_OLD);
	if (!is_old && !str_is(magic, MAGIC))
		return false;
	out->machine = mem_dup(machine.at, machine.len);
	out->worktree = mem_dup(worktree.at, worktree.len);
	if (!file_list_read(&rest, is_old, &out->has_base, &out->base) ||
	    !file_list_read(&rest, is_old, &out->is_pending, &out->pending))
		return false;
	if (!is_old && (!rest.len || !str_cut(&rest, 0, &commit)))
		return false;
	if (!is_old && commit.len)
		out->commit = mem_dup(commit.at, commit.len);
	return !rest.len;
}

fallible sync_state_read(struct str text, struct sync_state *out)
{
	*out = (struct sync_state){0};
	if (sync_state_parse(text, out))
		return OK;
	sync_state_done(out);
	return err_new(BAD_PEER, "bad_manifest", "the stored manifest of the sandbox is invalid");
}
