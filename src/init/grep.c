// Searches files in pieces of whole lines; a line longer than a piece is matched piece by piece. A
// file with a NUL in its first bytes is binary and skipped. The bounds are those of the request, or
// defaults.
#include <errno.h>
#include <fcntl.h>
#include <regex.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "init/handlers.h"
#include "init/path_resolve.h"
#include "init/reply.h"
#include "init/tree.h"

#define PIECE (256 * 1024)
#define TEXT_HEAD 8192
#define FILE_MAX (64ull << 20)
#define MATCHES_MAX 10000

static struct {
	const struct fileop_request *ask;
	struct fileop_reply *reply;
	struct reply_batch batch;
	regex_t regex;
	bool by_regex;
	uint64_t limit, file_max;
	char piece[PIECE + 1];
} job;

// A fixed text that ignores case is compiled to an expression.
static bool grep_compile(const struct fileop_request *ask)
{
	static char escaped[2 * 4096 + 1];
	const char *text = ask->text.at;
	size_t len = 0;
	int flags = REG_NEWLINE | (ask->flags & FILEOP_NO_CASE ? REG_ICASE : 0);

	job.by_regex = !(ask->flags & FILEOP_FIXED) || (ask->flags & FILEOP_NO_CASE);
	if (!job.by_regex)
		return ask->text.len > 0;
	if (ask->flags & FILEOP_FIXED) {
		for (; *text; text++) {
			if (strchr("\\.[]{}()*+?^$|", *text))
				escaped[len++] = '\\';
			escaped[len++] = *text;
		}
		escaped[len] = 0;
		text = escaped;
	}
	return regcomp(&job.regex, text, flags | REG_EXTENDED) == 0;
}

// The column, or -1. The line ends with a NUL.
static long grep_find(const char *line, size_t len)
{
	const char *at;
	regmatch_t match;

	if (job.by_regex)
		return regexec(&job.regex, line, 1, &match, 0) == 0 ? (long)match.rm_so : -1;
	at = memmem(line, len, job.ask->text.at, job.ask->text.len);
	return at ? at - line : -1;
}

static void grep_report(const char *path, uint64_t number, const char *line, size_t len,
			long column)
{
	struct fileop_match match = {
		.path = str_of(path),
		.line = number,
		.column = (uint32_t)column + 1,
		.text = {line, len < FILEOP_LINE_MAX ? len : FILEOP_LINE_MAX},
	};

	if (job.batch.count >= job.limit) {
		job.reply->more = true;
		return;
	}
	fileop_put_match(&job.batch.pack, &match);
	if (!reply_item(&job.batch))
		job.reply->skipped++;
}

// Searches all whole lines of the piece. Returns the number of bytes consumed.
static size_t search_lines(const char *path, size_t len, bool is_last, uint64_t *number)
{
	char *at = job.piece, *end = job.piece + len;

	while (at < end && !job.reply->more) {
		char *stop = memchr(at, '\n', (size_t)(end - at));
		long column;

		if (!stop && !is_last && (at > job.piece || len < PIECE))
			break;
		if (!stop)
			stop = end;
		*stop = 0;
		++*number;
		column = grep_find(at, (size_t)(stop - at));
		if (column >= 0)
			grep_report(path, *number, at, (size_t)(stop - at), column);
		at = stop + 1;
	}
	return at > end ? len : (size_t)(at - job.piece);
}

static void search_fd(int fd, const char *path)
{
	uint64_t number = 0, total = 0;
	size_t kept = 0;
	bool is_first = true;

	while (!job.reply->more) {
		ssize_t n = read(fd, job.piece + kept, PIECE - kept);
		size_t used;

		if (n < 0)
			return;
		total += (uint64_t)n;
		if (is_first && memchr(job.piece, 0, (size_t)n < TEXT_HEAD ? (size_t)n : TEXT_HEAD))
			return;
		is_first = false;
		kept += (size_t)n;
		if (kept == 0)
			return;
		used = search_lines(path, kept, n == 0 || total >= job.file_max, &number);
		if (n == 0 || total >= job.file_max)
			return;
		memmove(job.piece, job.piece + used, kept - used);
		kept -= used;
	}
}

static void grep_search(int dir, const char *name, const char *path)
{
	int fd = path_resolve_open_at(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	struct stat st;

	if (fd < 0) {
		job.reply->skipped += errno != ENOENT;
		return;
	}
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
		if ((uint64_t)st.st_size > job.file_max) {
			job.reply->skipped++;
		} else {
			job.reply->bytes += (uint64_t)st.st_size;
			search_fd(fd, path);
		}
	}
	close(fd);
}

static void search_tree(int root)
{
	const struct fileop_request *ask = job.ask;
	struct walk_at at;
	enum walk_step step;

	walk_begin(root);
	while (!job.reply->more && (step = walk_next(&at)) != WALK_END) {
		if (step == WALK_LEFT || (!(ask->flags & FILEOP_HIDDEN) && at.name[0] == '.') ||
		    tree_is_excluded(ask, at.path.at))
			continue;
		if (tree_is_directory(&at)) {
			job.reply->skipped += !walk_enter();
		} else if ((at.type == DT_REG || at.type == DT_UNKNOWN) &&
			   tree_is_included(ask, at.path.at)) {
			grep_search(at.dir, at.name, at.path.at);
		}
	}
	job.reply->skipped += walk_skipped();
	walk_end();
}

bool grep_serve(const struct fileop_request *ask, struct fileop_reply *reply)
{
	int root = path_resolve_open(ask->base, ask->path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
	const char *slash = strrchr(ask->path.at, '/');
	struct stat st = {0};

	if (root < 0)
		return false;
	job.ask = ask;
	job.reply = reply;
	job.limit = ask->limit ? ask->limit : MATCHES_MAX;
	job.file_max = ask->max ? ask->max : FILE_MAX;
	if (!grep_compile(ask)) {
		close(root);
		reply->why = FILEOP_BAD_PATTERN;
		errno = EINVAL;
		return false;
	}
	reply_begin(&job.batch, FILEOP_MATCHES);
	if (fstat(root, &st) == 0 && S_ISDIR(st.st_mode)) {
		search_tree(root);
	} else {
		if (S_ISREG(st.st_mode))
			search_fd(root, slash && slash[1] ? slash + 1 : ask->path.at);
		close(root);
	}
	reply_flush(&job.batch);
	reply->count = job.batch.count;
	if (job.by_regex)
		regfree(&job.regex);
	return true;
}
