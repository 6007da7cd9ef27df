// Verbs of the command line, by the file that has them. The table in cli.c calls them.
#pragma once

#include "cli/call.h"

// boxes.c
fallible boxes_create(struct call *call);
fallible boxes_ps(struct call *call);
fallible boxes_inspect(struct call *call);
fallible boxes_rm(struct call *call);

// code.c
fallible code_run(struct call *call);	 // cove run-code
fallible code_python(struct call *call); // cove python
fallible code_js(struct call *call);	 // cove js

// copy.c
fallible copy_cp(struct call *call);

// doctor.c
fallible doctor_look(struct call *call);

// egress.c
fallible cli_egress(struct call *call);

// events.c
fallible events_show(struct call *call);
fallible events_audit(struct call *call);
fallible events_verify(struct call *call);

// forward.c
fallible forward_run(struct call *call);

// host.c
fallible host_drain(struct call *call);
fallible host_reload(struct call *call);
fallible host_upgrade(struct call *call);

// jobs.c
fallible jobs_logs(struct call *call);
fallible jobs_kill(struct call *call);

// keys.c
fallible keys_create(struct call *call);
fallible keys_ls(struct call *call);
fallible keys_rm(struct call *call);
fallible keys_tenant_set(struct call *call);
fallible keys_tenant_ls(struct call *call);
fallible keys_tenant_rm(struct call *call);

// lifecycle.c
fallible lifecycle_take(struct call *call); // for all four verbs
fallible lifecycle_rotate(struct call *call);
fallible lifecycle_cleanup(struct call *call);

// login.c
fallible login_run(struct call *call);
fallible context_ls(struct call *call);
fallible context_use(struct call *call);
fallible context_rm(struct call *call);

// names.c
fallible names_print(struct call *call);

// policy.c
fallible cli_policy(struct call *call);

// ports.c
fallible ports_list(struct call *call);
fallible ports_expose(struct call *call);
fallible ports_unexpose(struct call *call);
fallible ports_open(struct call *call);

// run.c
fallible run_run(struct call *call);
fallible run_exec(struct call *call);
fallible run_shell(struct call *call);
fallible run_attach(struct call *call);

// session.c
fallible cli_session_create(struct call *call);
fallible cli_session_ls(struct call *call);
fallible cli_session_inspect(struct call *call);
fallible cli_session_interrupt(struct call *call);
fallible cli_session_answer(struct call *call);
fallible cli_session_logs(struct call *call);
fallible cli_session_attach(struct call *call);
fallible cli_session_rm(struct call *call);

// session_run.c
fallible cli_session_run(struct call *call);
fallible cli_session_runs(struct call *call);
fallible cli_session_events(struct call *call);

// show.c
fallible show_ls(struct call *call);
fallible show_cat(struct call *call);

// template.c
fallible cli_template_ls(struct call *call);
fallible cli_template_import(struct call *call);
fallible cli_template_freeze(struct call *call);
fallible cli_template_rm(struct call *call);
