
# Words that the running supervisor knows: pools, queues, options.
_taskvisor_values() {
    local cur=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} kind='' words=() word list=''
    for word in "${COMP_WORDS[@]:1:COMP_CWORD - 1}"; do
        [[ $word == -* ]] || words+=("$word")
    done
    case "$before" in
        -q | --queue) kind=queues ;;
        --state) kind=states ;;
        --class) kind=classes ;;
        -*) ;;
        *)
            case "${words[*]}" in
                recycle | scale | pause | resume | 'why pool') kind=pools ;;
                'why slot') kind=slots ;;
                put | 'queue pause' | 'queue resume' | 'queue stats' | 'queue forget'*) kind=queues ;;
                'option get' | 'option set' | 'option unset') kind=options ;;
                'recur show' | 'recur run' | 'recur pause'* | 'recur resume'* | 'recur remove'*) kind=recurring ;;
            esac
            ;;
    esac
    if [[ -z $kind || $cur == -* ]]; then
        _taskvisor "$@"
        return
    fi
    # Several states stand with commas between them.
    [[ $kind == states && $cur == *,* ]] && list=${cur%,*},
    COMPREPLY=($(compgen -P "$list" -W "$("${COMP_WORDS[0]}" values "$kind" 2>/dev/null)" -- "${cur#"$list"}")) || COMPREPLY=()
}
complete -F _taskvisor_values -o nosort -o bashdefault -o default taskvisor 2>/dev/null ||
    complete -F _taskvisor_values -o bashdefault -o default taskvisor
