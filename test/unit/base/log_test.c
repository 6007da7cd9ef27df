#include "base/log.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/auto.h"
#include "tap.h"

static char got[64 * 1024];
static int out[2];

static void begin(const char *format, const char *level)
{
	setenv("COVE_LOG_FORMAT", format, 1);
	setenv("COVE_LOG_LEVEL", level, 1);
	if (pipe2(out, O_CLOEXEC | O_NONBLOCK | O_DIRECT))
		perror("pipe2");
	log_open("tester", out[1]);
	log_trace(NULL);
}

// A pipe of packets: one read gives what one write wrote.
static const char *one_write(void)
{
	ssize_t len = read(out[0], got, sizeof(got) - 1);

	got[len > 0 ? len : 0] = 0;
	return got;
}

static void end(void)
{
	close(out[0]);
	close(out[1]);
}

TEST(of_box, "a sandbox causes at most sixty lines a minute")
{
	int lines = 0;

	begin("json", "info");
	for (int i = 0; i < 100; i++) {
		log_event_of("box-a", LOG_INFO, "security", "sandbox", "box-a", NULL);
		lines += *one_write() != 0;
	}
	CHECK(lines == LOG_BOX_LINES);
	log_event_of("box-b", LOG_INFO, "security", "sandbox", "box-b", NULL);
	CHECK(strstr(one_write(), "box-b"));
	end();
}

TEST(json, "a line of JSON starts with time, level, component and event")
{
	begin("json", "info");
	log_event(LOG_WARN, "box.lost", "sandbox", "b1", "left_out", NULL, "n", "5", NULL);
	one_write();
	CHECK(strncmp(got, "{\"time\":\"20", 11) == 0);
	CHECK_STR(strchr(got, 'Z') + 1, "\",\"level\":\"warn\",\"component\":\"tester\","
					"\"event\":\"box.lost\",\"sandbox\":\"b1\",\"n\":\"5\"}\n");
	end();
}

TEST(text, "the text format is for people, with quotes where they are needed")
{
	begin("text", "debug");
	log_event(LOG_DEBUG, "x", "a", "b", "c", "d e", "f", "", "g", "h\"\n", NULL);
	CHECK_STR(strchr(one_write(), 'Z') + 1,
		  " debug tester x a=b c=\"d e\" f=\"\" g=\"h\\\"\\u000a\"\n");
	end();
}

TEST(terminal, "without a format the log is text on a terminal and JSON elsewhere")
{
	int pty = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK), slave;
	ssize_t len;

	grantpt(pty);
	unlockpt(pty);
	slave = open(ptsname(pty), O_RDWR | O_NOCTTY | O_CLOEXEC);
	begin("json", "info");
	unsetenv("COVE_LOG_FORMAT");
	log_open("tester", slave);
	log_event(LOG_INFO, "x", "a", "b", NULL);
	len = read(pty, got, sizeof(got) - 1);
	got[len > 0 ? len : 0] = 0;
	CHECK(strstr(got, " info tester x a=b\r\n") != NULL);
	log_set(NULL, "json"); // a reload of the configuration
	log_event(LOG_INFO, "x", NULL);
	len = read(pty, got, sizeof(got) - 1);
	CHECK(len > 0 && got[0] == '{');
	log_open("tester", out[1]);
	log_event(LOG_INFO, "x", NULL);
	CHECK(one_write()[0] == '{');
	close(slave);
	close(pty);
	end();
}

TEST(hostile, "no field can end its line, forge another or steer a terminal")
{
	begin("json", "info");
	log_event(LOG_INFO, "e", "a", "x\"}\n{\"level\":\"error\x1b[2J\x7f\\", "b",
		  "\xff\xc3\xa4\xc2\x9b\xe2\x82", NULL);
	CHECK_STR(strstr(one_write(), "\"a\""),
		  "\"a\":\"x\\\"}\\u000a{\\\"level\\\":\\\"error\\u001b[2J\\u007f\\\\\","
		  "\"b\":\"\\ufffd\xc3\xa4\\u009b\\ufffd\"}\n");
	end();
}

TEST(levels, "what is below the level is not written, and an unknown level means info")
{
	begin("json", "error");
	log_event(LOG_WARN, "quiet", NULL);
	CHECK(!log_wants(LOG_WARN) && log_wants(LOG_ERROR) && *one_write() == 0);
	end();
	begin("json", "nonsense");
	CHECK(log_wants(LOG_INFO) && !log_wants(LOG_DEBUG));
	end();
}

TEST(other_names, "the names that begin with SANDBOX_ count where ours are absent")
{
	unsetenv("COVE_LOG_LEVEL");
	setenv("SANDBOX_LOG_LEVEL", "debug", 1);
	log_open("tester", STDERR_FILENO);
	CHECK(log_wants(LOG_DEBUG));
	unsetenv("SANDBOX_LOG_LEVEL");
}

TEST(trace, "lines carry the trace until it is unset")
{
	begin("json", "info");
	log_trace("abc");
	log_event(LOG_INFO, "e", NULL);
	CHECK(strstr(one_write(), "\"trace\":\"abc\"") != NULL);
	log_trace(NULL);
	log_event(LOG_INFO, "e", NULL);
	CHECK(strstr(one_write(), "trace") == NULL);
	end();
}

TEST(bounded, "a field is cut at 1 KiB and a line of too many fields says that it was cut")
{
	static char big[5000];

	begin("json", "info");
	memset(big, 'x', sizeof(big) - 1);
	log_event(LOG_INFO, "e", "a", big, NULL);
	CHECK(strlen(one_write()) < 1200 && strstr(got, "xxx...\"}\n") != NULL);
	memset(big, '\x01', sizeof(big) - 1);
	log_event(LOG_INFO, "e", "a", big, "b", big, "c", big, "d", "small", NULL);
	while (*one_write() && !strchr(got, '\n')) // a packet ends at a page
		;
	CHECK(strstr(got, ",\"cut\":true}\n") != NULL);
	end();
}
