// Reload: the whole configuration is read and checked before any of it is applied. A daemon that is
// started later gets the current settings; one that was just starting reads the shared file once it
// handles signals. So no change is lost.
//
// syscalls: pread64
#include "serve/reload.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "serve/agents.h"

#define TEXT_MAX (256 * 1024)
#define NAMES_MAX 4096

// Arguments, each ended by a NUL, and one more NUL.
static fallible reload_write(int fd, const struct config *used)
{
	auto_buf text = BUF_INIT(TEXT_MAX);
	char *words[CONFIG_ARGS_MAX];
	int count = 0;

	config_args(used, words, &count);
	for (int i = 0; i < count; i++) {
		buf_add(&text, words[i], strlen(words[i]) + 1);
		free(words[i]);
	}
	buf_char(&text, '\0');
	if (!buf_ok(&text))
		return err_new(TOO_LARGE, "bad_config", "the settings are too long");
	if (pwrite(fd, text.at, text.len, 0) != (ssize_t)text.len || ftruncate(fd, (off_t)text.len))
		return err_sys(errno, "write down the settings");
	return OK;
}

static fallible read_anew(int argc, char **argv, struct config *asked, struct config *used)
{
	auto_buf changed = BUF_INIT(NAMES_MAX), fixed = BUF_INIT(NAMES_MAX);
	auto_config fresh = {0};

	TRY(config_read(argc, argv, &fresh));
	TRY(serve_agents_check(&fresh));
	config_adopt(used, &fresh, &changed, NULL);
	config_adopt(asked, &fresh, NULL, &fixed);
	log_event(LOG_INFO, "serve.reloaded", "changed", changed.at, NULL);
	if (fixed.len)
		log_event(LOG_WARN, "serve.reload_later", "settings", fixed.at, "message",
			  "these have changed too, and count from the next start on", NULL);
	return OK;
}

bool reload_now(int argc, char **argv, struct config *asked, struct config *used, int fd)
{
	auto_err err = read_anew(argc, argv, asked, used);

	if (!err)
		err = reload_write(fd, used);
	if (err)
		log_event(LOG_ERROR, "serve.reload_refused", "message", err_message(err), "hint",
			  err_hint_of(err), "trail", err_trail(err), NULL);
	return !err;
}

fallible reload_open(const struct config *used, int *out_fd)
{
	int fd = memfd_create("live", MFD_CLOEXEC);

	if (fd < 0)
		return err_sys(errno, "make a file of settings");
	*out_fd = fd;
	return reload_write(fd, used);
}

// During a change the file is incomplete; the signal of that change is then still to come.
static fallible reload_split(struct str text, char **words, int *count)
{
	struct str word;

	while (text.len && str_cut(&text, '\0', &word)) {
		if (!word.len && !text.len)
			return OK;
		if (*count == CONFIG_ARGS_MAX)
			break;
		words[(*count)++] = (char *)word.at;
	}
	return err_new(INVALID, "bad_config", "the settings are not whole");
}

fallible reload_read(int fd, struct config *used, struct buf *changed)
{
	auto_free char *room = mem_new(TEXT_MAX);
	char *words[CONFIG_ARGS_MAX];
	auto_config fresh = {0};
	ssize_t len = pread(fd, room, TEXT_MAX, 0);
	int count = 0;

	if (len < 0)
		return err_sys(errno, "read the settings");
	TRY(reload_split((struct str){room, (size_t)len}, words, &count));
	TRY(config_read_flags(count, words, &fresh));
	config_adopt(used, &fresh, changed, NULL);
	return OK;
}
