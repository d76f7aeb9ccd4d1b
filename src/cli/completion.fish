
# Words that the running supervisor knows: pools, queues, options.
complete -c taskvisor -n '__fish_seen_subcommand_from recycle scale pause resume; and not __fish_seen_subcommand_from queue recur' -f -a '(taskvisor values pools 2>/dev/null)'
complete -c taskvisor -n '__fish_seen_subcommand_from queue; and __fish_seen_subcommand_from pause resume stats forget' -f -a '(taskvisor values queues 2>/dev/null)'
complete -c taskvisor -n '__fish_seen_subcommand_from put job failed' -s q -l queue -x -a '(taskvisor values queues 2>/dev/null)'
complete -c taskvisor -n '__fish_seen_subcommand_from job' -l state -x -a '(taskvisor values states)'
complete -c taskvisor -n '__fish_seen_subcommand_from option; and __fish_seen_subcommand_from get set unset' -f -a '(taskvisor values options 2>/dev/null)'
complete -c taskvisor -n '__fish_seen_subcommand_from why; and __fish_seen_subcommand_from pool' -f -a '(taskvisor values pools 2>/dev/null)'
complete -c taskvisor -n '__fish_seen_subcommand_from why; and __fish_seen_subcommand_from slot' -f -a '(taskvisor values slots 2>/dev/null)'
complete -c taskvisor -n '__fish_seen_subcommand_from recur; and __fish_seen_subcommand_from show run pause resume remove' -f -a '(taskvisor values recurring 2>/dev/null)'
complete -c taskvisor -n '__fish_seen_subcommand_from job failed' -l class -x -a '(taskvisor values classes 2>/dev/null)'
