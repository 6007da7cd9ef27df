// Uploads a source file, builds it in a session, runs it, and downloads what came out. The sandbox
// is got by name, so a second run finds it again.
//
//	cc build.c $(pkg-config --cflags --libs libcove) -o build
//	./build hello.c hello
#include <cove.h>
#include <stdio.h>
#include <string.h>

static struct cove_error error;

static int complain(const char *what)
{
	fprintf(stderr, "cannot %s: %s (%s)\n", what, error.message, cove_kind_word(error.kind));
	return 1;
}

// In pieces: a file may be larger than our memory.
static int upload(struct cove_box *box, const char *from, const char *to)
{
	struct cove_file *file = NULL;
	FILE *in = fopen(from, "rb");
	char room[4096];
	size_t n;
	int failed = 0;

	if (!in) {
		perror(from);
		return 1;
	}
	if (cove_file_create(box, to, 0644, &file, &error)) {
		fclose(in);
		return complain("create a file");
	}
	while (!failed && (n = fread(room, 1, sizeof(room), in)) > 0)
		failed = cove_file_write(file, room, n, &error) != COVE_OK;
	if (failed || cove_file_commit(file, &error)) // until here the old one was whole
		failed = complain("upload");
	cove_file_free(file);
	fclose(in);
	return failed;
}

static int download(struct cove_box *box, const char *from, const char *to)
{
	struct cove_file *file = NULL;
	FILE *out = fopen(to, "wb");
	char room[4096];
	size_t n = 1;
	int failed = 0;

	if (!out) {
		perror(to);
		return 1;
	}
	if (cove_file_open(box, from, 0, &file, &error)) {
		fclose(out);
		return complain("open a file");
	}
	while (!failed && n > 0) {
		if (cove_file_read(file, room, sizeof(room), &n, &error))
			failed = complain("download");
		else if (fwrite(room, 1, n, out) != n)
			failed = 1;
	}
	cove_file_free(file);
	return fclose(out) || failed;
}

// One command of the session; its output is shown.
static int step(struct cove_session *session, const char *line)
{
	struct cove_command command = COVE_ZERO;
	struct cove_output output = COVE_ZERO;
	int status;

	command.line = line;
	if (cove_session_exec(session, &command, &output, &error))
		return complain(line);
	printf("$ %s\n%s%s", line, output.out, output.out_len ? "\n" : "");
	if (output.err_len)
		fprintf(stderr, "%s\n", output.err);
	status = output.result.exit_code;
	cove_output_free(&output);
	return status;
}

static int list(void *arg, const struct cove_entry *entry)
{
	(void)arg;
	printf("%s %8llu %s\n", entry->mode, (unsigned long long)entry->size, entry->name);
	return 0;
}

static int build(struct cove_box *box, const char *from, const char *to)
{
	struct cove_session *session = NULL;
	int failed;

	if (cove_mkdir(box, "/workspace/src", true, &error))
		return complain("make a directory");
	failed = upload(box, from, "/workspace/src/main.c");
	if (failed)
		return failed;
	if (cove_session_create(box, NULL, &session, &error))
		return complain("create a session");
	failed = step(session, "cd src && OUT=program") || // both are still so in the next line
		 step(session, "cc -O1 -o \"$OUT\" main.c") ||
		 step(session, "\"./$OUT\" > out.txt; cat out.txt");
	if (!failed && cove_list(box, "/workspace/src", false, false, list, NULL, &error))
		failed = complain("list");
	if (!failed)
		failed = download(box, "/workspace/src/program", to);
	if (cove_session_delete(session, &error))
		failed = complain("delete the session");
	cove_session_free(session);
	return failed;
}

int main(int argc, char **argv)
{
	struct cove *cove = NULL;
	struct cove_box *box = NULL;
	int failed;

	if (argc != 3) {
		fprintf(stderr, "usage: %s SOURCE.c PROGRAM\n", argv[0]);
		return 2;
	}
	if (cove_open(NULL, &cove, &error))
		return complain("find cove");
	cove_set_timeout(cove, 60000);
	if (cove_box_ensure(cove, "example-build", NULL, &box, &error))
		failed = complain("get a sandbox");
	else
		failed = build(box, argv[1], argv[2]);
	cove_box_free(box);
	cove_close(cove);
	return failed;
}
