// Reads the files with the secrets of sinks, at the start: the confined daemon can open none of
// them. A newline at the end of a file is not part of the secret.
//
// syscalls: openat read close
#include "monitor/sinks.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/mem.h"

#define SECRET_MAX 4096

static fallible sinks_read_secret(const struct sink *sink, struct str *out)
{
	auto_fd fd = open(sink->secret_file, O_RDONLY | O_CLOEXEC);
	auto_free char *room = mem_new(SECRET_MAX + 1);
	ssize_t len = fd < 0 ? -1 : read(fd, room, SECRET_MAX);

	while (len > 0 && (room[len - 1] == '\n' || room[len - 1] == '\r'))
		len--;
	if (len <= 0)
		return err_hint(
			err_new(INVALID, "bad_config",
				"[alert.%s %s]: the file with the secret cannot be read, or "
				"is empty",
				sink_kind_word(sink->kind), sink->name),
			"secret_file is a file of 4096 bytes at most");
	*out = (struct str){take_ptr(room), (size_t)len};
	return OK;
}

fallible sinks_load(const char *text, struct sinks *out)
{
	TRY(sinks_read(str_of(text), out->at, &out->count));
	for (size_t i = 0; i < out->count; i++)
		if (out->at[i].secret_file)
			TRY(sinks_read_secret(&out->at[i], &out->secrets[i]));
	return OK;
}
