// Submits a program as an execution with limits, shows its output, and fetches what it left in
// out/.
//
//	cc submit.c $(pkg-config --cflags --libs libcove) -o submit
//	./submit job.py
#include <cove.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROGRAM_MAX (1 << 20)

static struct cove_error error;

static int complain(const char *what)
{
	fprintf(stderr, "cannot %s: %s (%s)\n", what, error.message, cove_kind_word(error.kind));
	return 125;
}

static int on_output(void *arg, const void *bytes, size_t len)
{
	(void)arg;
	return fwrite(bytes, 1, len, stdout) == len ? 0 : -1;
}

static int on_artifact(void *arg, const char *json)
{
	(void)arg;
	printf("artifact: %s\n", json);
	return 0;
}

// Follows it to its end; its exit status.
static int follow(struct cove_execution *execution)
{
	struct cove_sink sink = COVE_ZERO;
	struct cove_execution_info info;

	sink.on_stdout = on_output;
	sink.on_stderr = on_output;
	if (cove_execution_logs(execution, 0, true, &sink, &error))
		return complain("read its output");
	if (cove_execution_wait(execution, "done", -1, &info, &error))
		return complain("wait for its end");
	printf("%s: %s\n", info.id, info.outcome);
	if (cove_execution_artifacts(execution, on_artifact, NULL, &error))
		return complain("list its artifacts");
	return info.exit_code;
}

int main(int argc, char **argv)
{
	static const char *const command[] = {"python3", "program", NULL};
	static const char *const globs[] = {"out/**", NULL};
	struct cove_execution_file file = COVE_ZERO;
	struct cove_execution_spec spec = COVE_ZERO;
	struct cove_execution *execution = NULL;
	char *program = (char *)malloc(PROGRAM_MAX);
	FILE *from = argc > 1 && program ? fopen(argv[1], "rb") : NULL;
	struct cove *cove = NULL;
	int status;

	if (!from) {
		fprintf(stderr, "usage: submit PROGRAM\n");
		free(program);
		return 125;
	}
	file.path = "program";
	file.bytes = program;
	file.len = fread(program, 1, PROGRAM_MAX, from);
	fclose(from);
	spec.task_id = argv[1];
	spec.agent_type = "VALIDATION";
	spec.argv = command;
	spec.files = &file;
	spec.file_count = 1;
	spec.artifacts = globs;
	spec.wall_time_ms = 60000;
	if (cove_open(NULL, &cove, &error))
		status = complain("find cove");
	else if (cove_execution_submit(cove, &spec, &execution, &error))
		status = complain("submit it");
	else
		status = follow(execution);
	cove_execution_free(execution);
	cove_close(cove);
	free(program);
	return status;
}
