#include "serve/config.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "tap.h"

static struct err *read_words(struct config *out, const char *a, const char *b, const char *c)
{
	char *argv[] = {(char *)a, (char *)b, (char *)c};
	int argc = a ? b ? c ? 3 : 2 : 1 : 0;

	return config_read(argc, argv, out);
}

static const char *write_file(const char *text)
{
	static char path[64];
	int fd;

	snprintf(path, sizeof(path), "/tmp/cove-config-%d", (int)getpid());
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		abort();
	close(fd);
	return path;
}

static void forget_environment(void)
{
	static const char *const names[] = {"COVE_DATA", "COVE_LISTEN", "COVE_RUN",
					    "COVE_BOXES_MAX", "COVE_LOG_LEVEL"};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		unsetenv(names[i]);
}

TEST(defaults, "without options the defaults apply")
{
	auto_config config = {0};

	forget_environment();
	CHECK_OK(read_words(&config, NULL, NULL, NULL));
	CHECK_STR(config.data, "/var/lib/cove");
	CHECK_STR(config.run, "/run/cove");
	CHECK_STR(config.listen, "127.0.0.1:8484");
	CHECK(config.boxes_max == 10000 && config.grace_ms == 3000);
}

TEST(precedence, "a flag overrides the environment, which overrides the file")
{
	auto_config config = {0};
	auto_free char *flag = NULL;
	const char *path = write_file("data = /from-file\nlisten = 1.2.3.4:5\n[serve]\n"
				      "boxes-max = 7\n");

	forget_environment();
	flag = mem_fmt("--config=%s", path);
	setenv("COVE_DATA", "/from-env", 1);
	setenv("COVE_LISTEN", "6.7.8.9:10", 1);
	CHECK_OK(read_words(&config, flag, "--data", "/from-flag"));
	unlink(path);
	forget_environment();
	CHECK_STR(config.data, "/from-flag");
	CHECK_STR(config.listen, "6.7.8.9:10");
	CHECK(config.boxes_max == 7);
	CHECK_STR(config.run, "/from-flag/run");
}

TEST(unknown, "an unknown key of the file is refused with its line")
{
	auto_config config = {0};
	const char *path = write_file("data = /x\n\nlisen = 1\n");
	auto_free char *flag = mem_fmt("--config=%s", path);
	auto_err err = NULL;

	forget_environment();
	err = read_words(&config, flag, NULL, NULL);
	unlink(path);
	CHECK(err && err_kind(err) == ERR_INVALID);
	CHECK(strstr(err_message(err), "line 3") && strstr(err_message(err), "lisen"));
}

TEST(malformed, "a malformed value or an unknown flag is refused")
{
	auto_config config = {0};

	forget_environment();
	CHECK_ERR(read_words(&config, "--boxes-max", "0", NULL), INVALID);
	CHECK_ERR(read_words(&config, "--boxes-max=x", NULL, NULL), INVALID);
	CHECK_ERR(read_words(&config, "--log-level=loud", NULL, NULL), INVALID);
	CHECK_ERR(read_words(&config, "--nothing=1", NULL, NULL), INVALID);
	CHECK_ERR(read_words(&config, "--data", NULL, NULL), INVALID);
	CHECK_ERR(read_words(&config, "stray", NULL, NULL), INVALID);
	CHECK_ERR(read_words(&config, "--config=/nonexistent", NULL, NULL), NOT_FOUND);
}

TEST(on_term, "on TERM sandboxes are stopped, or left to the next start")
{
	auto_config config = {0};

	forget_environment();
	CHECK_OK(read_words(&config, "--on-term=stop", NULL, NULL));
	CHECK_STR(config.on_term, "stop");
	config_done(&config);
	CHECK_OK(read_words(&config, "--on-term=handoff", NULL, NULL));
	CHECK_STR(config.on_term, "handoff");
	CHECK_ERR(read_words(&config, "--on-term=", NULL, NULL), INVALID);
}

TEST(settings, "every documented setting can be set; settings of child processes cannot")
{
	auto_buf text = BUF_INIT(64 * 1024);
	size_t count = 0, seen = 0;

	config_describe(&text);
	for (const struct setting *s = config_settings(); s->name; s++) {
		auto_free char *line = mem_fmt("--%-12s ", s->name);

		CHECK(strstr(text.at, line) && *s->arg && *s->help);
		CHECK(strncmp(s->name, "fd-", 3) != 0);
		count++;
	}
	CHECK(count > 20);
	for (struct config_option row; config_option(seen, &row); seen++)
		CHECK(*row.name && *row.arg && *row.help);
	CHECK(seen == count);
}

TEST(adopted, "a reload applies live settings and names the others")
{
	auto_buf changed = BUF_INIT(1024), fixed = BUF_INIT(1024);
	auto_config used = {0}, fresh = {0};

	forget_environment();
	CHECK_OK(read_words(&used, "--data=/a", "--isolate-orgs=acme", "--boxes-max=5"));
	CHECK_OK(read_words(&fresh, "--data=/b", "--shared-tag=v2", "--boxes-max=5"));
	config_adopt(&used, &fresh, &changed, &fixed);
	CHECK_STR(used.isolate, "");
	CHECK_STR(used.tag, "v2");
	CHECK_STR(used.data, "/a");
	CHECK_STR(changed.at, "isolate-orgs,shared-tag");
	CHECK_STR(fixed.at, "data,run");
	buf_clear(&changed);
	config_adopt(&used, &fresh, &changed, NULL);
	CHECK(!changed.len);
}

TEST(handed_on, "settings passed to a child process are read back unchanged")
{
	auto_config config = {0}, copy = {0};
	char *argv[CONFIG_ARGS_MAX];
	int count = 0;

	forget_environment();
	CHECK_OK(read_words(&config, "--data=/x y", "--grace=90s", "--max-output=8M"));
	config_args(&config, argv, &count);
	setenv("COVE_ISOLATE_ORGS", "nobody", 1); // said to us, not to it
	CHECK_OK(config_read(count, argv, &copy));
	CHECK_STR(copy.isolate, "");
	config_done(&copy);
	CHECK_OK(config_read_flags(count, argv, &copy));
	unsetenv("COVE_ISOLATE_ORGS");
	while (count)
		free(argv[--count]);
	CHECK_STR(copy.data, "/x y");
	CHECK(copy.grace_ms == 90000 && copy.output_max == 8 << 20);
}
