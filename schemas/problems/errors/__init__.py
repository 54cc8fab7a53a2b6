"""Every error of bai, a module per subject. `base` has what they share: begin there.

An error class's docstring is its message (formatted with the keyword arguments it was raised with); `code` is
stable and has an entry in the reference documentation; `retryable` says whether the same call may succeed
later; `hint` says what to do.

    BaiError                         base
    ├── InvalidRepository     E0001  repository    the documents have problems (each a `Problem`)
    │   └── NotARepository    E0003                none of its files is a document of bai
    ├── CannotRead            E0002                a file, directory or commit that cannot be read
    ├── ProviderError         E0300  provider      a provider failed
    │   ├── ProviderUnavailable E0301              (retryable) cannot be reached or answers nothing useful
    │   │   ├── NodeUnreachable E0306 node         (retryable) no answer, or a connection broke
    │   │   ├── HostKeyRefused  E0307              its host key is not known, or another one than it was
    │   │   ├── LoginRefused    E0308              it lets nobody in with these keys
    │   │   ├── TargetRefused   E0341              (retryable) nothing answers at a socket or port of it
    │   │   ├── CommandTimedOut E0342              (retryable) a command on it took too long
    │   │   └── NodeBusy        E0351 provisioning (retryable) somebody else provisions the node
    │   ├── MachineRefused    E0340  node          it is reached, and does not do what was asked of it
    │   ├── VolumeRefused     E0310                a volume's folder cannot be made, moved or deleted
    │   ├── ImageMissing      E0311                it does not have an image
    │   ├── PullFailed        E0312                it cannot fetch an image
    │   ├── UnknownProvider   E0304  provider      no provider of this name
    │   ├── InvalidOption     E0305                a provider's option is not usable
    │   ├── NotAble           E0320                the provider has no such ability
    │   ├── KernelRefused     E0302  kernel        the provider cannot create what was asked
    │   ├── KernelNotFound    E0303                no such kernel
    │   ├── NotRunning        E0321                it does not run
    │   ├── CopyRefused       E0322                a file is not copied in or out
    │   ├── PortRefused       E0323                (retryable) a port of it cannot be reached
    │   ├── NoTerminal        E0324                a terminal of it cannot be had
    │   ├── FilesRefused      E0325                a folder of it is not shown, a file not written
    │   ├── ProvisioningImpossible E0350 provisioning  Ansible, or the roles, cannot be used where bai runs
    │   └── ProvisioningFailed E0352               a role failed on the node
    ├── RegistryError         E0330  registry      a registry of images failed
    │   ├── RegistryRefused   E0331                who asks may not see what was asked for
    │   ├── NoSuchImage       E0332                the registry has no such image or tag
    │   ├── RegistryUntrusted E0333                its certificate is not believed
    │   └── RegistryUnreachable E0334              (retryable) it does not answer
    ├── ForgeError            E0360  forge         where pull requests are talked about
    │   ├── ForgeUnknown      E0361                no pull request is known, or no token
    │   ├── ForgeRefused      E0362                the forge does not do what was asked of it
    │   └── ForgeUnreachable  E0363                (retryable) it does not answer
    ├── RemoteError           E0370  git_remote    the git remote that documents come from
    │   ├── RemoteUnreachable E0371                (retryable) it cannot be fetched
    │   ├── NoSuchRevision    E0372                (retryable) it has no such branch, tag or commit
    │   ├── HistoryRewritten  E0373                its branch does not rest on what is carried out
    │   ├── NotPushed         E0374                a document was not committed, or not taken
    │   └── StaleProposal     E0376                a file has changed since a change of it was begun
    ├── NotTrusted            E0375                a commit is not signed, or changes what is somebody else's
    ├── NotifyError           E0380  notification  a notification was not sent
    │   ├── NotSent           E0381                and will not be, as it is
    │   └── NotSentNow        E0382                (retryable) perhaps later
    ├── StoreError            E0400  store         the store cannot be used
    │   ├── LeaseHeld         E0401                (retryable) somebody else is applying
    │   ├── LeaseLost         E0402                the fencing token is no longer the newest
    │   ├── StoreUnavailable  E0403                (retryable) its server or another writer is in the way
    │   └── StoreMoved        E0404                its contents are elsewhere now
    ├── PlanError             E0500  plan          a plan cannot be made or carried out
    │   ├── StalePlan         E0501                the world moved since the plan was made
    │   ├── GuardRefused      E0502                it deletes what is protected, or breaks a Policy
    │   ├── IncompleteObservation E0503            (retryable) not all was observed; absence says nothing
    │   └── SecretMissing     E0504                a secret's reference leads nowhere
    └── CommandError          E0600  command       what was asked of the command cannot be done
        ├── NoSuchResource    E0601                the name given means no resource
        ├── AmbiguousName     E0602                the name given means several
        ├── NotConfirmed      E0603                nobody said yes, and nobody can be asked
        └── AlreadyThere      E0604                a file would be overwritten
"""
