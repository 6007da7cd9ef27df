// pid 1 of every box, carried inside the one binary that is installed.
	.section .rodata.pid1, "a"
	.balign 4096
	.global pid1_start
	.hidden pid1_start
pid1_start:
	.incbin PID1_FILE
	.global pid1_end
	.hidden pid1_end
pid1_end:
	.section .note.GNU-stack, "", %progbits
