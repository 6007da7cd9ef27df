// A stack of ignore files, the nearest first. The rules of a file apply to paths relative to its
// directory: `base` is the length of that directory's path beneath the root, or, for a directory
// above the root, `prefix` is the path from there to the root. Ignore files are bounded in size. A
// file that cannot be read is an error: a backup without its rules would contain files meant to be
// left out.
#include "init/gitignore.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "codec/ignore.h"
#include "init/path_resolve.h"
#include "os/fd.h"

#define NAME ".gitignore"
#define SIZE_MAX_BYTES (1 << 20)

struct ignore_file {
	struct ignore_file *next; // farther from the path
	struct str rules;	  // on the heap
	char *prefix;		  // NULL: base
	size_t base;
	// For the whole directory: OUT, entered for a tracked file in it, or KEEP, a repository.
	enum ignore_verdict verdict;
};

static struct {
	const struct fileop_request *ask;
	struct ignore_file *files;
	char path[2 * PATH_MAX];
	char place[PATH_MAX], up[PATH_MAX];
} ignore;

static void file_drop(void)
{
	struct ignore_file *file = ignore.files;

	ignore.files = file->next;
	free((char *)file->rules.at);
	free(file->prefix);
	free(file);
}

// Empty if there is none. A symlink is not followed, as in git.
static bool file_read(int dir, const char *name, struct str *out)
{
	auto_fd_errno fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;
	char *text = NULL;
	ssize_t got = -1;

	*out = (struct str){0};
	if (fd < 0)
		return errno == ENOENT || errno == ENOTDIR || errno == ELOOP;
	if (fstat(fd, &st) == 0 && !S_ISREG(st.st_mode))
		return true;
	text = malloc(SIZE_MAX_BYTES + 1);
	if (text)
		got = fd_read_all(fd, text, SIZE_MAX_BYTES + 1);
	if (got > SIZE_MAX_BYTES) {
		errno = EFBIG;
		got = -1;
	}
	if (got <= 0) {
		free(text);
		return got == 0;
	}
	*out = (struct str){text, (size_t)got};
	return true;
}

static bool file_add(int dir, const char *name, const char *prefix, size_t base)
{
	struct ignore_file *file = calloc(1, sizeof(*file));
	char *copy = prefix ? strdup(prefix) : NULL;
	struct str rules;

	if (!file || (prefix && !copy) || !file_read(dir, name, &rules)) {
		free(file);
		free(copy);
		return false;
	}
	// Most directories have none: do not keep a mebibyte for each.
	if (rules.at) {
		char *less = realloc((char *)rules.at, rules.len);

		rules.at = less ? less : rules.at;
	}
	*file = (struct ignore_file){ignore.files, rules, copy, base, IGNORE_SILENT};
	ignore.files = file;
	return true;
}

// The rest of `place` after `depth` slashes, counted from its end.
static const char *place_behind(const char *place, int depth)
{
	const char *at = place + strlen(place);

	for (; depth > 0; at--)
		depth -= at[-1] == '/';
	return *at == '/' ? at + 1 : at;
}

// Adds the ignore files of the directories between the top of the repository and the root, the
// farthest first. `place` is the path of the root, `depth` the number of directories from it up to
// the top.
static bool files_add_above(int root, const char *place, int depth)
{
	char *up = ignore.up;

	for (int i = depth; i > 0; i--) {
		for (int j = 0; j < i; j++)
			memcpy(up + 3 * (size_t)j, "../", 3);
		memcpy(up + 3 * (size_t)i, NAME, sizeof(NAME));
		if (!file_add(root, up, place_behind(place, i), 0))
			return false;
	}
	return true;
}

// How many directories above the root the repository begins; -1: there is none. *up leads there.
static int find_top(int root, const char *place, char *up, size_t size)
{
	int levels = 0;
	size_t len = 0;

	for (const char *at = place; *at; at++)
		levels += *at == '/' && at[1];
	for (int depth = 0; depth <= levels && len + sizeof("../.git/info/exclude") < size;
	     depth++) {
		struct stat st;

		memcpy(up + len, ".git", sizeof(".git"));
		if (fstatat(root, up, &st, AT_SYMLINK_NOFOLLOW) == 0) {
			up[len] = 0;
			return depth;
		}
		memcpy(up + len, "../", 4);
		len += 3;
	}
	return -1;
}

bool gitignore_begin(const struct fileop_request *ask, int root)
{
	char link[32], *place = ignore.place, *up = ignore.up;
	int depth;
	ssize_t len;

	ignore.ask = ask;
	len = readlink(path_resolve_of_fd(root, link), place, sizeof(ignore.place) - 1);
	place[len > 0 ? len : 0] = 0;
	depth = place[0] == '/' ? find_top(root, place, up, sizeof(ignore.up)) : -1;
	if (depth >= 0) {
		memcpy(up + strlen(up), ".git/info/exclude", sizeof(".git/info/exclude"));
		if (!file_add(root, up, place_behind(place, depth), 0) ||
		    !files_add_above(root, place, depth))
			return false;
	}
	return file_add(root, NAME, NULL, 0);
}

static enum ignore_verdict file_judge(const struct ignore_file *file, struct str path, bool is_dir)
{
	int len;

	if (!file->rules.len)
		return IGNORE_SILENT;
	if (!file->prefix || !file->prefix[0])
		return ignore_judge(file->rules, str_skip(path, file->base), is_dir);
	len = snprintf(ignore.path, sizeof(ignore.path), "%s/" STR_FMT, file->prefix,
		       STR_ARG(path));
	if (len < 0 || (size_t)len >= sizeof(ignore.path))
		return IGNORE_SILENT;
	return ignore_judge(file->rules, (struct str){ignore.path, (size_t)len}, is_dir);
}

// A file that git tracks, or a directory that contains one.
static bool is_tracked(struct str path, bool is_directory)
{
	for (uint32_t i = 0; i < ignore.ask->includes; i++) {
		struct str kept = str_of(ignore.ask->globs[i]);

		if (kept.len >= path.len && memcmp(kept.at, path.at, path.len) == 0 &&
		    (kept.len == path.len || (is_directory && kept.at[path.len] == '/')))
			return true;
	}
	return false;
}

static bool is_ignored(struct str path, bool is_directory)
{
	if (ignore.files->verdict != IGNORE_SILENT)
		return ignore.files->verdict == IGNORE_OUT;
	for (const struct ignore_file *file = ignore.files; file; file = file->next) {
		enum ignore_verdict verdict = file_judge(file, path, is_directory);

		if (verdict != IGNORE_SILENT)
			return verdict == IGNORE_OUT;
	}
	return false;
}

// The repository's own directory is not in the tree for git, and no rule applies to it.
static bool is_repository(struct str path)
{
	return str_is(path, ".git") || str_ends(path, "/.git");
}

bool gitignore_is_out(struct str path, bool is_directory)
{
	return !is_repository(path) && is_ignored(path, is_directory) &&
	       !is_tracked(path, is_directory);
}

bool gitignore_enter(int dir, const char *name, struct str path)
{
	enum ignore_verdict verdict = ignore.files->verdict;
	char file[NAME_MAX + 1 + sizeof(NAME)];

	if (snprintf(file, sizeof(file), "%s/" NAME, name) >= (int)sizeof(file)) {
		errno = ENAMETOOLONG;
		return false;
	}
	if (verdict == IGNORE_SILENT && is_repository(path))
		verdict = IGNORE_KEEP;
	else if (verdict == IGNORE_SILENT && is_ignored(path, true))
		verdict = IGNORE_OUT;
	if (!file_add(dir, file, NULL, path.len + 1))
		return false;
	ignore.files->verdict = verdict;
	return true;
}

void gitignore_leave(void)
{
	file_drop();
}

void gitignore_end(void)
{
	while (ignore.files)
		file_drop();
}
